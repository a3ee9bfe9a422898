"""``pointer_generator``: Get To The Point (See et al., ACL 2017, arXiv 1704.04368)."""

from fairseq.models import register_model
from fairseq.tasks import FairseqTask

from ...errors import UserError, user_errors
from ...modules import AdditiveAttention
from ..checks import check_joined
from ..copying import CopyingModel
from ..word_layers import build_output_layer, word_embedding
from .config import PointerGeneratorConfig, register_presets
from .decoder import PointerGeneratorDecoder
from .encoder import PointerGeneratorEncoder
from .initialisation import initialise


@register_model("pointer_generator", dataclass=PointerGeneratorConfig)
class PointerGeneratorModel(CopyingModel):
    """A bidirectional LSTM encoder, and an LSTM decoder that generates words or copies them through its attention."""

    adds_losses = True

    encoder: PointerGeneratorEncoder
    decoder: PointerGeneratorDecoder

    @classmethod
    def build_model(cls, cfg: PointerGeneratorConfig, task: FairseqTask) -> "PointerGeneratorModel":
        """Build the model that ``cfg`` describes for the dictionary of ``task``.

        Raises:
            UserError: if the options contradict each other or the task.
        """
        check_joined(task, "pointer_generator")
        if cfg.coverage_weight < 0:
            raise UserError(f"--coverage-weight must be 0 or more, but is {cfg.coverage_weight}.")
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        attention = AdditiveAttention(
            2 * cfg.hidden_size, 2 * cfg.hidden_size, cfg.attention_dim, coverage=cfg.coverage, query_bias=True
        )
        with user_errors():
            output_layer = build_output_layer(cfg, cfg.hidden_size, cfg.embed_dim, dictionary)
        encoder = PointerGeneratorEncoder(dictionary, embed_tokens, cfg.hidden_size)
        decoder = PointerGeneratorDecoder(
            dictionary, embed_tokens, cfg.hidden_size, attention, output_layer, cfg.coverage_weight
        )
        model = cls(encoder, decoder)
        if str(cfg.weight_init) == "see2017":
            initialise(encoder, decoder)
        return model


register_presets()
