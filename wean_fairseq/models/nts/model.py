"""``nts``: NTS (Nisioi et al., ACL 2017, P17-2014), EncDecA and DRESS-LS (Zhang and Lapata, EMNLP 2017, D17-1062).

Legend: ``B`` batch, ``N`` hypotheses, ``S`` source length, ``T`` target length, ``E`` embedding width, ``H`` hidden
width, ``L`` layers, ``V`` words, ``X`` width of the lexical model.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...errors import UserError
from ...modules import LossSums, Memory, Step, fold_hypotheses, stacked_lstm
from ...modules.input_feeding import AttentionMemory, FedState, GlobalAttention, InputFeedingLstm
from ...modules.log_linear import LogLinearOutput
from ..base import LossModel, StepDecoder, init_uniform_, register_family
from ..recurrent_encoders import LstmEncoder
from ..word_layers import build_output_layer
from .base_checkpoint import is_lexical, load_base
from .config import PRESETS, NtsConfig
from .embedding import WordEmbedding, start_from_files


@dataclass(frozen=True)
class NtsMemory(Memory):
    """Encoder output in the form that the decoder steps read."""

    source: AttentionMemory
    start: FedState
    lexical: Tensor | None  # the states of a lexical model, (B, S, X)


class NtsDecoder(StepDecoder[NtsMemory, FedState]):
    """An LSTM with input feeding, whose attentional states are the features of the words' scores.

    Dropout is applied to the input words only with ``--dropout-input``. For the rest see ``InputFeedingLstm``.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: NtsConfig) -> None:
        super().__init__(dictionary)
        width, hidden = cfg.embed_dim, cfg.hidden_size
        attention = GlobalAttention(str(cfg.attention_score), hidden)
        stack = InputFeedingLstm(width, hidden, cfg.num_layers, attention, cfg.dropout, dropout_input=cfg.dropout_input)
        self.embed_tokens = embed_tokens
        if cfg.lexical_dim:
            share, unk = cfg.lexical_share, dictionary.unk()
            self.output = LogLinearOutput(hidden, cfg.lexical_dim, len(dictionary), share=share, unk_index=unk)
        else:
            self.output = build_output_layer(cfg, hidden, width, dictionary)
        self.stack = stack
        self.dropout = nn.Dropout(cfg.dropout if cfg.dropout_input else 0.0)

    def remember(self, encoder_out: dict[str, Tensor]) -> NtsMemory:
        source = self.stack.attention.remember(encoder_out["encoder_out"], encoder_out["encoder_padding_mask"])
        start = self.stack.start(encoder_out["final_hidden"], encoder_out["final_cell"])
        return NtsMemory(source, start, encoder_out.get("lexical"))

    def begin(self, memory: NtsMemory) -> FedState:
        return memory.start

    def step(self, words: Tensor, memory: NtsMemory, state: FedState) -> tuple[Step, FedState]:
        """See ``StepDecoder``. The features are the attentional states, (N, T, H)."""
        embedded = self.dropout(self.embed_tokens(words))  # (N, T, E)
        outputs, weights, state = self.stack(embedded, memory.source, state)
        return Step(outputs, weights), state


class LexicalDecoder(NtsDecoder):
    """A decoder combined with a lexical model, which reads the source through the attention of this decoder.

    Words are scored from the features of both. The lexical model is used from the second word on, because the first one
    cannot be predicted from words (release).
    """

    output: LogLinearOutput
    learns_lexical_alone = False  # only the lexical model has a loss

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: NtsConfig) -> None:
        super().__init__(dictionary, embed_tokens, cfg)
        self.share = cfg.lexical_share
        self.lexical_dropout = nn.Dropout(cfg.dropout)

    def step(self, words: Tensor, memory: NtsMemory, state: FedState) -> tuple[Step, FedState]:
        """The features are attentional states, sums a_ti r_i of lexical states, and the share, (N, T, H + X + 1)."""
        step, state = super().step(words, memory, state)
        assert step.attention is not None
        assert memory.lexical is not None
        lexical = torch.bmm(fold_hypotheses(step.attention, len(memory.lexical)), memory.lexical)  # (B, K * T, X)
        lexical = self.lexical_dropout(lexical.view(*words.shape, -1))
        share = self.share * words.ne(self.dictionary.eos()).unsqueeze(-1).to(lexical)  # (N, T, 1)
        return replace(step, features=torch.cat([step.features, lexical, share], dim=-1)), state

    def scores(self, step: Step, memory: NtsMemory) -> Tensor:
        if self.learns_lexical_alone and self.training:
            raise UserError(
                "with --base-checkpoint the lexical model is trained by its own loss, which this --criterion does not "
                "compute: use --criterion model_loss."
            )
        return super().scores(step, memory)

    def step_loss(self, step: Step, memory: NtsMemory, target: Tensor, label_smoothing: float) -> LossSums:
        if not self.learns_lexical_alone:
            return super().step_loss(step, memory, target, label_smoothing)
        lexical = step.features[..., self.stack.lstm.hidden_size : -1]
        return self.output.lexical.loss(lexical, self.word_embeddings, target, self.padding_idx, label_smoothing)


class NtsEncoder(LstmEncoder):
    """An LSTM encoder, optionally with the encoder of a lexical model. It reads backwards with ``--reverse-source``.

    Dropout is applied to the words only with ``--dropout-input``.

    Args:
        hidden_size: units of every layer.
        lexical: the encoder of a lexical model.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        hidden_size: int,
        cfg: NtsConfig,
        lexical: "NtsEncoder | None" = None,
    ) -> None:
        lstm = stacked_lstm(embed_tokens.embedding_dim, hidden_size, cfg.num_layers, cfg.dropout)
        super().__init__(dictionary, embed_tokens, lstm, cfg.dropout if cfg.dropout_input else 0.0)
        self.reverse = cfg.reverse_source
        self.lexical = lexical

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """See ``LstmEncoder``. With a lexical model also its ``lexical`` states (B, S, X), like ``encoder_out``."""
        encoded = super().forward(src_tokens.flip(1) if self.reverse else src_tokens)
        if self.reverse:
            encoded |= {name: encoded[name].flip(1) for name in ("encoder_out", "encoder_padding_mask")}
        if self.lexical is not None:
            encoded["lexical"] = self.lexical(src_tokens)["encoder_out"]
        return encoded


@register_family("nts", NtsConfig, PRESETS)
class NtsModel(LossModel):
    """An LSTM encoder, and an LSTM decoder with global attention and input feeding. Each has its own word embedding.

    DRESS-LS adds a lexical model.
    """

    encoder: NtsEncoder
    decoder: NtsDecoder

    @classmethod
    def build(cls, cfg: NtsConfig, task: FairseqTask) -> "NtsModel":
        _check_vectors(cfg)
        _check_lexical(cfg)
        dictionary, keeps = task.source_dictionary, cfg.freeze_vectors
        source_words, target_words = (WordEmbedding(dictionary, cfg.embed_dim, keeps_words=keeps) for _ in range(2))
        lexical = None
        if cfg.lexical_dim:
            lexical = NtsEncoder(dictionary, WordEmbedding(dictionary, cfg.lexical_dim), cfg.lexical_dim, cfg)
        encoder = NtsEncoder(dictionary, source_words, cfg.hidden_size, cfg, lexical)
        decoder = LexicalDecoder if cfg.lexical_dim else NtsDecoder
        model = cls(encoder, decoder(dictionary, target_words, cfg))
        init_uniform_(model, cfg.init_range)
        start_from_files(source_words, dictionary, cfg, cfg.local_source_vectors)
        start_from_files(target_words, dictionary, cfg, cfg.local_target_vectors)
        if cfg.base_checkpoint:
            load_base(model, cfg, task)
            model.freeze_base()
        return model

    def freeze_base(self) -> None:
        """Train only the lexical model from now on, without dropout in the base, whose attention it uses."""
        assert isinstance(self.decoder, LexicalDecoder)
        self.decoder.learns_lexical_alone = True
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(is_lexical(name))

    def train(self, mode: bool = True) -> Self:
        """See ``nn.Module``. A frozen base stays in evaluation mode."""
        super().train(mode)
        if isinstance(self.decoder, LexicalDecoder) and self.decoder.learns_lexical_alone:
            for module in (self.encoder.lstm, self.encoder.dropout, self.decoder.stack, self.decoder.dropout):
                module.eval()
        return self


def _check_lexical(cfg: NtsConfig) -> None:
    if cfg.base_checkpoint and not cfg.lexical_dim:
        raise UserError("--base-checkpoint is for a lexical model: give --arch dress_ls, or --lexical-dim.")
    if cfg.lexical_share > 1:
        raise UserError(f"--lexical-share is a share, 1 at most, but is {cfg.lexical_share}.")
    if cfg.lexical_dim and str(cfg.output_layer) != "linear":
        raise UserError(
            "a lexical model (--lexical-dim) is mixed into --output-layer linear alone: leave one of them out."
        )


def _check_vectors(cfg: NtsConfig) -> None:
    local = cfg.local_source_vectors or cfg.local_target_vectors
    if local and not 0 < cfg.local_dim <= cfg.embed_dim:
        raise UserError(
            f"--local-source-vectors and --local-target-vectors need --local-dim, their width, from 1 to the "
            f"{cfg.embed_dim} of --embed-dim, but it is {cfg.local_dim}."
        )
    if cfg.global_vectors and cfg.local_dim >= cfg.embed_dim:
        raise UserError(
            f"--local-dim {cfg.local_dim} leaves no part of --embed-dim {cfg.embed_dim} for --global-vectors: "
            "make the embeddings wider."
        )
    if cfg.freeze_vectors and local:
        raise UserError("--freeze-vectors is for --global-vectors alone: leave the local vectors out.")
    if cfg.freeze_vectors and str(cfg.output_layer) == "query_embedding":
        raise UserError(
            "--freeze-vectors keeps words unchanged, but --output-layer query_embedding trains them: "
            "use one of the two."
        )
