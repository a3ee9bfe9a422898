"""``ppg``: planning-based generation (Wang et al., COLING 2016, arXiv 1610.09889), line by line from a topic each.

The paper writes poems. The mapping to essays, a chunk of clauses for a line, is this project's own.
"""

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask

from ...errors import UserError
from ..presets import register_family
from ..topics import TopicModel, initialise
from ..word_layers import word_embedding
from .config import PRESETS, PpgConfig
from .decoder import PpgDecoder
from .encoder import PpgEncoder


@register_family("ppg", PpgConfig, PRESETS)
class PpgModel(TopicModel):
    """Encodes each topic and the text so far; writes one chunk from each topic."""

    adds_losses = True

    @classmethod
    def build(cls, cfg: PpgConfig, task: FairseqTask) -> "PpgModel":
        dictionary = task.source_dictionary
        chunk_index = _chunk_index(dictionary, cfg.chunk_symbol)
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        encoder = PpgEncoder(dictionary, embed_tokens, cfg.hidden_size)
        decoder = PpgDecoder(dictionary, embed_tokens, cfg.hidden_size, chunk_index, cfg.dropout)
        model = cls(encoder, decoder)
        initialise(model, cfg)
        return model


def _chunk_index(dictionary: Dictionary, symbol: str) -> int:
    index = int(dictionary.index(symbol))
    if index < dictionary.nspecial:
        raise UserError(
            f"ppg needs the chunk symbol {symbol!r} in its dictionary, which does not have it: write the essays with "
            "preprocess/clause_chunks.py, or name another word with --chunk-symbol."
        )
    return index
