"""``copy_transformer``: the Transformer of the C-DNPG table, with and without copying."""

from fairseq.tasks import FairseqTask

from ..copying import CopyingModel
from ..presets import register_family
from ..transformer import TransformerSourceEncoder, TransformerTargetDecoder, build_network
from .config import PRESETS, CopyTransformerConfig
from .decoder import GateDecoder, SharedSoftmaxDecoder

DECODERS: dict[str, type[TransformerTargetDecoder]] = {
    "gate": GateDecoder,
    "shared-softmax": SharedSoftmaxDecoder,
    "none": TransformerTargetDecoder,
}


@register_family("copy_transformer", CopyTransformerConfig, PRESETS)
class CopyTransformerModel(CopyingModel):
    """A Transformer that generates and copies; with ``--copy-mode none`` the same network without copying."""

    encoder: TransformerSourceEncoder
    decoder: TransformerTargetDecoder

    @classmethod
    def build(cls, cfg: CopyTransformerConfig, task: FairseqTask) -> "CopyTransformerModel":
        dictionary = task.source_dictionary
        network = build_network(cfg, dictionary)  # before what copies: a seed starts all modes from the same network
        return cls(
            TransformerSourceEncoder(dictionary, network.encoder, cfg.max_positions),
            DECODERS[str(cfg.copy_mode)](dictionary, network.decoder, network.output_layer, cfg.max_positions),
        )
