"""Checks that every model of this package must pass, in the same way for every arch (see tests/unit/models).

A test class inherits ``ModelContract`` and names its archs in ``cases``. The class then runs all checks.
"""

from argparse import Namespace
from typing import Any, ClassVar

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY

import wean_fairseq
from wean_fairseq.capabilities import capabilities_of
from wean_fairseq.modules import Step

wean_fairseq.register()

PAD, EOS, UNK = 1, 2, 3


def make_dictionary(words: int = 19) -> Dictionary:
    dictionary = Dictionary()
    for index in range(words):
        dictionary.add_symbol(f"w{index}", n=words - index)
    return dictionary


def make_task(dictionary: Dictionary | None = None, **cfg: Any) -> Namespace:
    """Return a stand-in for a task, which has only dictionaries and options."""
    dictionary = dictionary or make_dictionary()
    return Namespace(source_dictionary=dictionary, target_dictionary=dictionary, cfg=Namespace(**cfg))


def build_model(arch: str, task: Namespace | None = None, seed: int = 11, **options: Any) -> torch.nn.Module:
    """Build ``arch`` as the command line would with ``options`` as flags. The model is in evaluation mode."""
    args = Namespace(**options)
    ARCH_CONFIG_REGISTRY[arch](args)
    cfg = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]].from_namespace(args)
    torch.manual_seed(seed)
    return ARCH_MODEL_REGISTRY[arch].build_model(cfg, task or make_task()).eval()


def make_batch(seed: int = 5, dictionary_size: int = 23, left_pad_source: bool = True) -> dict[str, torch.Tensor]:
    """Return three sentence pairs of different lengths, padded as fairseq pads them."""
    generator = torch.Generator().manual_seed(seed)
    sources = [sentence(generator, length, dictionary_size) for length in (5, 2, 7)]
    targets = [sentence(generator, length, dictionary_size) for length in (4, 6, 1)]
    return collate(sources, targets, left_pad_source)


def sentence(generator: torch.Generator, length: int, dictionary_size: int) -> torch.Tensor:
    words = torch.randint(UNK, dictionary_size, (length,), generator=generator)
    return torch.cat([words, torch.tensor([EOS])])


def collate(sources, targets, left_pad_source=True, extra_source=0, extra_target=0) -> dict[str, torch.Tensor]:
    """Return a batch in fairseq's layout, with ``extra_source`` and ``extra_target`` additional columns of padding."""

    def pad(rows, left, extra):
        width = max(len(row) for row in rows) + extra
        out = torch.full((len(rows), width), PAD)
        for out_row, row in zip(out, rows, strict=True):
            out_row[slice(width - len(row), None) if left else slice(len(row))] = row
        return out

    return {
        "src_tokens": pad(sources, left_pad_source, extra_source),
        "src_lengths": torch.tensor([len(row) for row in sources]),
        "prev_output_tokens": pad([torch.cat([row[-1:], row[:-1]]) for row in targets], False, extra_target),
        "target": pad(targets, False, extra_target),
    }


def unpad(batch: dict[str, torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    return tuple([row[row != PAD] for row in batch[name]] for name in ("src_tokens", "target"))


def task_inputs(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the entries of net_input that a model needs besides the sentences, as the task computes them."""
    if capabilities_of(model).needs_length:
        return {"essay_lengths": batch["target"].ne(PAD).sum(dim=1)}
    return {}


def log_probs(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the log-probabilities (B, T, V) under teacher forcing."""
    more = task_inputs(model, batch)
    out = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"], **more)
    return model.get_normalized_probs(out, log_probs=True)


def token_log_probs(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return the log-probabilities of the reference words, without padding, as one tensor (length,) per sentence."""
    picked = log_probs(model, batch).gather(2, batch["target"].unsqueeze(-1)).squeeze(-1)
    return [row[target != PAD] for row, target in zip(picked, batch["target"], strict=True)]


def parts(step: Step) -> dict[str, torch.Tensor]:
    """Return those tensors of a step that exist, by name."""
    copying = {} if step.copying is None else step.copying._asdict()
    named = {"features": step.features, "attention": step.attention, **copying}
    return {name: part for name, part in named.items() if part is not None}


class ModelContract:
    """Test classes inherit this class and set ``cases``: pytest ids -> (arch, options)."""

    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", list(self.cases.values()), ids=list(self.cases))

    @pytest.fixture
    def model(self, case):
        arch, options = case
        return build_model(arch, **options)

    def test_every_arch_of_the_family_is_covered(self):
        families = {ARCH_MODEL_NAME_REGISTRY[arch] for arch, _ in self.cases.values()}
        registered = {arch for arch, family in ARCH_MODEL_NAME_REGISTRY.items() if family in families}
        assert registered == {arch for arch, _ in self.cases.values()}

    def test_scores_have_the_dictionarys_width_and_probabilities_sum_to_one(self, model):
        batch = make_batch()
        lprobs = log_probs(model, batch)
        assert lprobs.shape == (*batch["target"].shape, 23)
        torch.testing.assert_close(lprobs.exp().sum(-1), torch.ones(batch["target"].shape))

    def test_the_loss_in_forward_is_the_nll_of_the_scores(self, model):
        batch = make_batch()
        expected = -sum(row.sum() for row in token_log_probs(model, batch))
        sums = model(**batch, **task_inputs(model, batch))
        torch.testing.assert_close(sums.loss, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(sums.nll_loss, expected, rtol=1e-5, atol=1e-5)

    def has_no_gradient(self, case, name):
        """Return True if, for mathematical reasons, the loss cannot depend on a parameter."""
        return False

    def test_the_loss_may_be_changed_in_place(self, model):
        """Test in-place changes, because fairseq multiplies the loss by 0 in a process without a batch."""
        batch = make_batch()
        loss = model(**batch, **task_inputs(model, batch)).loss
        loss *= 0
        loss.backward()

    def test_every_parameter_gets_a_gradient(self, model, case):
        batch = make_batch()
        model(**batch, **task_inputs(model, batch)).loss.backward()
        without = [
            name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())
        ]
        assert without == [name for name, _ in model.named_parameters() if self.has_no_gradient(case, name)]

    def test_a_saved_model_loads_identically(self, model, case, tmp_path):
        torch.save(model.state_dict(), tmp_path / "model.pt")
        arch, options = case
        other = build_model(arch, seed=99, **options)
        other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
        assert torch.equal(log_probs(model, make_batch()), log_probs(other, make_batch()))

    @pytest.mark.parametrize("left_pad_source", [False, True])
    def test_padding_changes_nothing(self, model, left_pad_source):
        batch = make_batch()
        padded = collate(*unpad(batch), left_pad_source=left_pad_source, extra_source=4, extra_target=3)
        torch.testing.assert_close(token_log_probs(model, padded), token_log_probs(model, batch), rtol=1e-5, atol=1e-5)

    def test_neighbours_in_the_batch_change_nothing(self, model):
        batch = make_batch()
        together = token_log_probs(model, batch)
        for source, target, expected in zip(*unpad(batch), together, strict=True):
            alone = token_log_probs(model, collate([source], [target]))[0]
            torch.testing.assert_close(alone, expected, rtol=1e-5, atol=1e-5)

    def test_generation_steps_equal_teacher_forcing_after_a_reorder(self, model):
        batch = make_batch()
        more = task_inputs(model, batch)
        full = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"], **more)
        expected, attention = full[0], full[1]["attn"][0]
        order = torch.tensor([2, 0, 0, 1])  # as in beam search, sentences are dropped, doubled and moved
        encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"], **more)
        state: dict[str, Any] = {}
        rows = torch.arange(3)
        for step in range(batch["target"].size(1)):
            if step == 2:
                rows = order
                encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
                model.decoder.reorder_incremental_state_scripting(state, order)
            tokens = batch["prev_output_tokens"][rows][:, : step + 1]
            scores, extra = model.decoder(tokens, encoder_out, incremental_state=state)
            assert scores.size(1) == 1
            torch.testing.assert_close(scores[:, 0], expected[rows, step], rtol=1e-5, atol=1e-5)
            if attention is None:  # a model without attention has no weights at any step
                assert extra["attn"] == [None]
            else:
                torch.testing.assert_close(extra["attn"][0][:, 0], attention[rows, step], rtol=1e-5, atol=1e-5)

    @torch.no_grad()
    def test_hypotheses_that_share_their_source_take_the_steps_of_teacher_forcing(self, model):
        """Test two hypotheses per sentence that read the same row of the source, as in the fast search.

        The hypotheses differ after the first word. Then one sentence is dropped, and the hypotheses of the other
        sentences change places.
        """
        batch = make_batch()
        encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"], **task_inputs(model, batch))
        words, decoder = batch["prev_output_tokens"], model.decoder
        texts = torch.stack([words, torch.where(words > UNK, UNK + 1 + (words - UNK) % 19, words)], dim=1)  # (3, 2, T)
        texts[:, :, 0] = words[:, :1]
        memory = decoder.remember(encoder_out)
        whole = [decoder.steps(texts[:, number], memory) for number in (0, 1)]
        state, sentences, numbers = decoder.begin(memory), torch.arange(3), torch.zeros(3, dtype=torch.long)
        for place in range(words.size(1)):
            step, state = decoder.step(texts[sentences, numbers, place].unsqueeze(1), memory, state)
            for name, found in parts(step).items():
                expected = torch.stack([parts(one)[name] for one in whole], dim=1)[sentences, numbers, place]
                torch.testing.assert_close(found[:, 0], expected, rtol=1e-5, atol=1e-5, msg=f"{name} at {place}")
            if place == 0:
                state = state.select(torch.tensor([0, 0, 1, 1, 2, 2]), None)
                sentences, numbers = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 1] * 3)
            if place == 2:
                kept = torch.tensor([1, 2])
                memory, state = memory.select(kept), state.select(torch.tensor([3, 2, 4, 5]), kept)
                sentences, numbers = torch.tensor([1, 1, 2, 2]), torch.tensor([1, 0, 0, 1])

    def test_the_same_seed_gives_the_same_model_and_dropout(self, case):
        arch, options = case
        first, second = (build_model(arch, **options).train() for _ in range(2))
        outputs = []
        for model in (first, second):
            torch.manual_seed(3)
            outputs.append(log_probs(model, make_batch()))
        assert torch.equal(*outputs)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision_stays_finite(self, model, dtype):
        model = model.to(dtype)
        batch = make_batch()
        sums = model(**batch, **task_inputs(model, batch))
        sums.loss.backward()
        assert torch.isfinite(sums.loss)
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
