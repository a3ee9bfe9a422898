"""Test in every family that the search scores of ``--path a.pt:b.pt`` come from the models' mean probabilities.

The oracle runs each model over the output with teacher forcing, and takes log((p + q) / 2) for each word.
"""

import importlib
import math
from pathlib import Path

import pytest
import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator

from tests import copy_contract
from tests.model_contract import ModelContract, build_model, collate, make_task, task_inputs

FOLDER = Path(__file__).resolve().parents[1] / "models"
SOURCES = [[8, 9, 12, 2], [5, 2], [6, 20, 4, 8, 7, 2]]


def families():
    """Return the first case of every family in tests/unit/models, as its test module, its arch and its options."""
    found = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        module = importlib.import_module(f"tests.unit.models.{path.stem}")
        for contract in vars(module).values():
            if isinstance(contract, type) and issubclass(contract, ModelContract):
                for arch, options in contract.cases.values():
                    found.setdefault(ARCH_MODEL_NAME_REGISTRY[arch], (module, arch, options))
    return found


FAMILIES = families()


def test_every_family_of_this_package_is_here():
    own = {name for name, model in MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq.")}
    assert set(FAMILIES) == own & set(ARCH_MODEL_NAME_REGISTRY.values())


@torch.no_grad()
def teacher_forced(model, source, words, inputs):
    batch = collate([torch.tensor(source)], [words])
    given = {name: value for name, value in batch.items() if name != "target"}
    lprobs = model.get_normalized_probs(model(**given, **inputs), log_probs=True)
    return lprobs[0].gather(1, words.unsqueeze(1)).squeeze(1)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_ensemble_scores_by_the_mean_of_the_probabilities(family):
    module, arch, options = FAMILIES[family]
    copies = MODEL_REGISTRY[family].capabilities.copies
    sources = copy_contract.SOURCES if copies else SOURCES  # models that copy get words outside the dictionary
    task = copy_contract.copy_task() if copies else None
    build = getattr(module, "build_with_features", build_model)
    models = [build(arch, task, seed, **options) for seed in (11, 12)]
    batch = collate([torch.tensor(row) for row in sources], [torch.tensor(row) for row in sources])
    extra = task_inputs(models[0], batch)
    inputs = {name: batch[name] for name in ("src_tokens", "src_lengths", "prev_output_tokens")} | extra
    if build is not build_model:  # with teacher forcing, the built model finds these inputs itself
        inputs["bert_features"] = module.features(batch["src_tokens"])
    dictionary = (task or make_task()).target_dictionary
    search = SequenceGenerator(models, dictionary, beam_size=3, max_len_a=0, max_len_b=7, normalize_scores=False)
    for row, hypotheses in enumerate(search.generate(models, {"net_input": inputs})):
        own = {name: value[row : row + 1] for name, value in extra.items()}
        for hypothesis in hypotheses:
            words = hypothesis["tokens"]
            both = torch.stack([teacher_forced(model, sources[row], words, own) for model in models])
            expected = both.logsumexp(0) - math.log(2)
            torch.testing.assert_close(hypothesis["positional_scores"], expected, rtol=1e-4, atol=1e-5)
