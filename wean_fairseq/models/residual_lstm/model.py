"""``residual_lstm``: stacked residual LSTM networks for paraphrases (Prakash et al., COLING 2016, C16-1275)."""

from typing import Any

import torch
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...errors import UserError, user_errors
from ...modules import LossSums, ResidualLstm
from ..checks import check_joined
from ..copying import build_output_layer, embedding
from .config import ResidualLstmConfig, register_presets
from .decoder import ResidualLstmDecoder
from .encoder import ResidualLstmEncoder


@register_model("residual_lstm", dataclass=ResidualLstmConfig)
class ResidualLstmModel(FairseqEncoderDecoderModel):
    """LSTM encoder and decoder of equal depth with residuals every few layers, and no attention."""

    computes_loss = True  # see criterions/model_loss.py
    encoder: ResidualLstmEncoder
    decoder: ResidualLstmDecoder

    @classmethod
    def build_model(cls, cfg: ResidualLstmConfig, task: FairseqTask) -> "ResidualLstmModel":
        """Build the model that ``cfg`` describes for the dictionary of ``task``.

        Raises:
            UserError: if the options contradict each other or the task.
        """
        check_joined(task, "residual_lstm")
        if cfg.init_range < 0:
            raise UserError(f"--init-range must be 0 (PyTorch's defaults) or more, but is {cfg.init_range}.")
        dictionary = task.source_dictionary
        sizes = (cfg.embed_dim, cfg.hidden_size, cfg.num_layers, cfg.residual_every, cfg.dropout)
        recurrent = cfg.residual_recurrent
        source_words = embedding(dictionary, cfg.embed_dim)
        target_words = source_words if cfg.share_embeddings else embedding(dictionary, cfg.embed_dim)
        with user_errors():
            encoder = ResidualLstmEncoder(dictionary, source_words, ResidualLstm(*sizes, recurrent=recurrent))
            output = build_output_layer(cfg, cfg.hidden_size, cfg.embed_dim, dictionary)
            stack = ResidualLstm(*sizes, recurrent=recurrent)
            decoder = ResidualLstmDecoder(dictionary, target_words, stack, output)
        model = cls(encoder, decoder)
        if cfg.init_range:
            _initialise(model, cfg.init_range)
        return model

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        target: Tensor | None = None,
        label_smoothing: float = 0.0,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, list[None]]] | LossSums:
        """Score every next word, or with ``target`` compute the loss without building the scores.

        Args:
            src_tokens: shape (B, S).
            src_lengths: shape (B,).
            prev_output_tokens: shape (B, T).
            target: shape (B, T).
            label_smoothing: used with ``target``.

        Returns:
            Logits (B, T, V) and ``{"attn": [None]}``; with ``target`` the summed losses.
        """
        encoder_out = self.encoder(src_tokens, src_lengths)
        if target is None:
            return self.decoder(prev_output_tokens, encoder_out)
        features = self.decoder.extract_features(prev_output_tokens, encoder_out)
        return self.decoder.loss(features, target, label_smoothing)


def _initialise(model: nn.Module, bound: float) -> None:
    """Uniform weights; the padding word stays 0."""
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -bound, bound)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx].zero_()


register_presets()
