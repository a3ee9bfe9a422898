"""``copy_transformer``: the Transformer of the C-DNPG table, with and without copying."""

from fairseq.models import register_model
from fairseq.tasks import FairseqTask

from ..checks import check_joined
from ..copying import CopyingModel
from ..transformer import TransformerSourceEncoder, TransformerTargetDecoder, build_network
from .config import CopyTransformerConfig, register_presets
from .decoder import GateDecoder, SharedSoftmaxDecoder

DECODERS: dict[str, type[TransformerTargetDecoder]] = {
    "gate": GateDecoder,
    "shared-softmax": SharedSoftmaxDecoder,
    "none": TransformerTargetDecoder,
}


@register_model("copy_transformer", dataclass=CopyTransformerConfig)
class CopyTransformerModel(CopyingModel):
    """A Transformer that generates and copies; with ``--copy-mode none`` the same network without copying."""

    encoder: TransformerSourceEncoder
    decoder: TransformerTargetDecoder

    @classmethod
    def build_model(cls, cfg: CopyTransformerConfig, task: FairseqTask) -> "CopyTransformerModel":
        """Build the model that ``cfg`` describes for the dictionary of ``task``.

        Raises:
            UserError: if the options contradict each other or the task.
        """
        check_joined(task, "copy_transformer")
        dictionary = task.source_dictionary
        network = build_network(cfg, dictionary)  # before what copies: a seed starts all modes from the same network
        return cls(
            TransformerSourceEncoder(dictionary, network.encoder, cfg.max_positions),
            DECODERS[str(cfg.copy_mode)](dictionary, network.decoder, network.output_layer, cfg.max_positions),
        )


register_presets()
