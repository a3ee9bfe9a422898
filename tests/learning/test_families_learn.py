"""Check that every family can learn a small function of its source.

Sentences consist of one or two words, and each word has a synonym.

At nearly every step, including the step of the end symbol, the correct next word must be the most probable one. The
words must be in the order of the source. The words of a source are sorted, so that models that see them as a set can
know their order. A symbol separates the synonyms, and ``ppg`` takes it for the end of a chunk.
"""

import itertools
from dataclasses import fields

import pytest
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY

from tests.families import families, tiny
from tests.model_contract import EOS, PAD, build_model, collate, make_dictionary, make_task, task_inputs

CHUNK = 11  # w7
SOURCE = range(4, 11)  # ids of the words
SYNONYM = {word: word + 10 for word in SOURCE}
UPDATES, WIDTH, RATE = 150, 32, 0.01
# The published initial weights are meant for wider layers.
START = {"init_range": 0.0, "weight_init": "pytorch"}


def sentences() -> dict[str, torch.Tensor]:
    """Return all sets of one and two words, with their expected outputs, as a batch."""
    sets = [words for size in (1, 2) for words in itertools.combinations(SOURCE, size)]
    sources = [torch.tensor([*words, EOS]) for words in sets]
    targets = []
    for words in sets:
        written = [part for word in words for part in (SYNONYM[word], CHUNK)]
        targets.append(torch.tensor([*written[:-1], EOS]))
    return collate(sources, targets)


@pytest.mark.parametrize("family", families())
def test_a_family_learns_synonyms(family):
    known = {option.name for option in fields(MODEL_DATACLASS_REGISTRY[family])}
    options = tiny(family, WIDTH) | {name: value for name, value in START.items() if name in known}
    model = build_model(family, make_task(make_dictionary()), **options).train()
    batch = sentences()
    more = task_inputs(model, batch)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    words = int(batch["target"].ne(PAD).sum())
    for update in range(UPDATES):
        optimizer.param_groups[0]["lr"] = RATE * (1 - update / UPDATES)
        optimizer.zero_grad()
        loss = model(**batch, **more).loss / words
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores, _ = model(*(batch[name] for name in ("src_tokens", "src_lengths", "prev_output_tokens")), **more)
    right = scores.argmax(dim=-1).eq(batch["target"]) & batch["target"].ne(PAD)
    assert int(right.sum()) > 0.95 * words
