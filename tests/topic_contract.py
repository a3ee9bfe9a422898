"""Checks that every model that writes an essay from topic words must pass, in addition to ``ModelContract``."""

from typing import Any

import torch
from fairseq.sequence_generator import SequenceGenerator

from tests.model_contract import EOS, ModelContract, build_model, collate, log_probs, make_task, task_inputs

CHUNK = 11  # the symbol between chunks in models that have one
TOPICS = [[8, 9, 12], [5], [6, 20, 4, 8, 7]]
ESSAYS = [[13, 10, CHUNK, 9, 12, 13, CHUNK, 14, EOS], [5, 4, EOS], [CHUNK, 6, 15, EOS]]


def essay_batch(topics: list[list[int]] = TOPICS, essays: list[list[int]] = ESSAYS, **layout: Any) -> dict[str, Any]:
    """Return essays of different lengths with different numbers of topics, with fairseq's padding."""
    sources = [torch.tensor([*words, EOS]) for words in topics]
    return collate(sources, [torch.tensor(essay) for essay in essays], **layout)


def scored(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return the logits (B, T, V) and the extra outputs."""
    more = task_inputs(model, batch)
    return model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"], **more)


class TopicContract(ModelContract):
    """Base class for the tests of a model that writes an essay, used instead of ``ModelContract``."""

    def test_beam_search_finds_what_teacher_forcing_scores(self, model):
        """Check the scores of fairseq's search, in which hypotheses end, change places and are dropped.

        The expected scores come from the model, which reads the same output with teacher forcing.
        """
        batch = essay_batch()
        inputs = {name: batch[name] for name in ("src_tokens", "src_lengths", "prev_output_tokens")}
        inputs |= task_inputs(model, batch)
        dictionary = make_task().target_dictionary
        generator = SequenceGenerator(
            [model], dictionary, beam_size=4, max_len_a=0, max_len_b=9, normalize_scores=False
        )
        found = generator.generate([model], {"net_input": inputs})
        for row, hypotheses in enumerate(found):
            assert len(hypotheses) == 4
            for hypothesis in hypotheses:
                again = essay_batch([TOPICS[row]], [hypothesis["tokens"].tolist()])
                again |= {name: value[row : row + 1] for name, value in task_inputs(model, batch).items()}
                lprobs = self._given_length(model, again)
                expected = lprobs[0].gather(1, again["target"][0].unsqueeze(1)).squeeze(1)
                torch.testing.assert_close(hypothesis["positional_scores"], expected, rtol=1e-4, atol=1e-5)

    @staticmethod
    def _given_length(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return log-probabilities (B, T, V) if the requested length of the essay differs from the actual length."""
        out = model(**{name: value for name, value in batch.items() if name != "target"})
        return model.get_normalized_probs(out, log_probs=True)

    def test_attention_is_on_topics_alone_where_there_is_any(self, model):
        batch = essay_batch(extra_source=2)
        attention = scored(model, batch)[1]["attn"][0]
        if attention is None:
            return
        assert attention.shape == (*batch["target"].shape, batch["src_tokens"].size(1))
        elsewhere = (batch["src_tokens"] <= EOS).unsqueeze(1).expand_as(attention)
        assert not attention[elsewhere].any()
        assert attention.max() <= 1

    def test_an_essay_without_topics_has_finite_scores_and_gradients(self, case):
        arch, options = case
        model = build_model(arch, **options)
        batch = essay_batch([[], [9]], [[10, EOS], [11, 12, EOS]])
        sums = model(**batch, **task_inputs(model, batch))
        sums.loss.backward()
        assert torch.isfinite(log_probs(model, batch)).all()
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
