"""Topic coverage of essays: the share of the topic words that occur in the text.

None of the topic-to-essay papers counts this. They ask raters for "topic consistency".
"""

from typing import Any

from ..tokenizers import has_chinese
from .base import RatioMetric, SourceMixin


class TopicCoverage(SourceMixin, RatioMetric):
    """Share of the source's (topic) words that occur in the output, over the whole corpus, as a percentage.

    A topic word counts if it is one of the output's tokens. A Chinese topic word counts if it is a substring of the
    output, because topic and essay may be segmented differently. Topics are always split at white space.
    """

    higher_is_better = None  # copying the topics would be perfect, and pointless

    def __init__(self, label: str = "topics", tokenize: str = "none", lowercase: bool = True) -> None:
        super().__init__(label, tokenize, lowercase, {"match": "token", "chinese": "substring"})

    def _extract_reference_info(self, refs: Any) -> dict[str, Any]:
        return {"topics": set(refs[0].split())}

    def _cache_references(self, references: Any) -> list[Any]:
        """Split topics at white space instead of tokenising them."""
        tokenizer, self._tokenizer = self._tokenizer, str
        try:
            return super()._cache_references(references)
        finally:
            self._tokenizer = tokenizer

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return (realised topic words, topic words)."""
        tokens, text, topics = set(hypothesis.split()), hypothesis.replace(" ", ""), ref_kwargs["topics"]
        realised = sum(topic in (text if has_chinese(topic) else tokens) for topic in topics)
        return [float(realised), float(len(topics))]
