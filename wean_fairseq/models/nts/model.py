"""``nts``: NTS (Nisioi et al., ACL 2017, P17-2014), and EncDecA (Zhang and Lapata, EMNLP 2017, D17-1062).

Legend: ``B`` batch, ``N`` hypotheses, ``S`` source length, ``T`` target length, ``E`` embedding width, ``H`` hidden
width, ``L`` layers, ``V`` words.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...errors import UserError
from ...modules import Memory, QueryEmbedding, Step, run_over_words
from ...modules.input_feeding import AttentionMemory, FedState, GlobalAttention, InputFeedingLstm
from ..base import LossModel, SourceEncoder, StepDecoder, init_uniform_
from ..presets import register_family
from ..word_layers import build_output_layer
from .config import PRESETS, NtsConfig
from .embedding import WordEmbedding, start_from_files


@dataclass(frozen=True)
class NtsMemory(Memory):
    """The source as every step sees it."""

    source: AttentionMemory
    start: FedState


class NtsDecoder(StepDecoder[NtsMemory, FedState]):
    """An LSTM that is fed its last attentional state; words are scored from the attentional states.

    Args:
        embed_tokens: (V, E).
        stack: the layers and the attention.
        output: scores words from the attentional states.
        dropout: on the words read.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        stack: InputFeedingLstm,
        output: QueryEmbedding,
        dropout: float,
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.output = output
        self.stack = stack
        self.dropout = nn.Dropout(dropout)

    def remember(self, encoder_out: dict[str, Tensor]) -> NtsMemory:
        source = self.stack.attention.remember(encoder_out["encoder_out"], encoder_out["encoder_padding_mask"])
        return NtsMemory(source, self.stack.start(encoder_out["final_hidden"], encoder_out["final_cell"]))

    def step(self, words: Tensor, memory: NtsMemory, state: FedState) -> tuple[Step, FedState]:
        """See ``StepDecoder``; the features are the attentional states, (N, T, H)."""
        embedded = self.dropout(self.embed_tokens(words))  # (N, T, E)
        outputs, weights, state = self.stack(embedded, memory.source, state)
        return Step(outputs, weights), state


class NtsEncoder(SourceEncoder):
    """An LSTM over the words of each sentence, so that padding on either side is never read.

    Args:
        embed_tokens: (V, E).
        lstm: ``batch_first``, E -> H.
        dropout: on the words.
        reverse: read from the end of the sentence to its start.
    """

    def __init__(
        self, dictionary: Dictionary, embed_tokens: nn.Embedding, lstm: nn.LSTM, dropout: float, reverse: bool
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.lstm = lstm
        self.dropout = nn.Dropout(dropout)
        self.reverse = reverse

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Returns:
            ``encoder_out`` (B, S, H), zero at padding, in the order of ``src_tokens``; ``encoder_padding_mask`` (B, S);
            ``final_hidden`` and ``final_cell`` of every layer, each (L, B, H).
        """
        tokens = src_tokens.flip(1) if self.reverse else src_tokens
        embedded = self.dropout(self.embed_tokens(tokens))
        outputs, (hidden, cell) = run_over_words(self.lstm, embedded, tokens.eq(self.padding_idx))
        return {
            "encoder_out": outputs.flip(1) if self.reverse else outputs,
            "encoder_padding_mask": src_tokens.eq(self.padding_idx),
            "final_hidden": hidden,
            "final_cell": cell,
        }


@register_family("nts", NtsConfig, PRESETS)
class NtsModel(LossModel):
    """LSTM encoder; LSTM decoder with global attention and input feeding; a word embedding for each of them."""

    encoder: NtsEncoder
    decoder: NtsDecoder

    @classmethod
    def build(cls, cfg: NtsConfig, task: FairseqTask) -> "NtsModel":
        _check_vectors(cfg)
        model = _build(cls, cfg, task)
        init_uniform_(model, cfg.init_range)
        sides = (
            (model.encoder.embed_tokens, cfg.local_source_vectors),
            (model.decoder.embed_tokens, cfg.local_target_vectors),
        )
        for words, local in sides:
            assert isinstance(words, WordEmbedding)
            shared, dictionary = cfg.global_vectors, task.source_dictionary
            start_from_files(
                words, dictionary, shared, local, local_dim=cfg.local_dim, missing_std=cfg.missing_vector_std
            )
        return model


def _check_vectors(cfg: NtsConfig) -> None:
    """Refuse widths that do not go with the files of vectors."""
    local = cfg.local_source_vectors or cfg.local_target_vectors
    if local and not 0 < cfg.local_dim <= cfg.embed_dim:
        raise UserError(
            f"--local-source-vectors and --local-target-vectors need --local-dim, their width, from 1 to the "
            f"{cfg.embed_dim} of --embed-dim, but it is {cfg.local_dim}."
        )
    if cfg.global_vectors and cfg.local_dim >= cfg.embed_dim:
        raise UserError(
            f"--local-dim {cfg.local_dim} leaves nothing of --embed-dim {cfg.embed_dim} to --global-vectors: "
            "make the embeddings wider."
        )
    if cfg.freeze_vectors and local:
        raise UserError("--freeze-vectors is for --global-vectors alone: leave the local vectors out.")
    if cfg.freeze_vectors and str(cfg.output_layer) == "query_embedding":
        raise UserError(
            "--freeze-vectors keeps words as they are, but --output-layer query_embedding trains them: "
            "use one of the two."
        )


def _build(cls: type[NtsModel], cfg: NtsConfig, task: FairseqTask) -> NtsModel:
    dictionary, width, hidden = task.source_dictionary, cfg.embed_dim, cfg.hidden_size
    on_input = cfg.dropout if cfg.dropout_input else 0.0
    between = cfg.dropout if cfg.num_layers > 1 else 0.0
    source_words, target_words = (WordEmbedding(dictionary, width, keeps_words=cfg.freeze_vectors) for _ in range(2))
    encoder = NtsEncoder(
        dictionary,
        source_words,
        lstm=nn.LSTM(width, hidden, cfg.num_layers, batch_first=True, dropout=between),
        dropout=on_input,
        reverse=cfg.reverse_source,
    )
    attention = GlobalAttention(str(cfg.attention_score), hidden)
    decoder = NtsDecoder(
        dictionary,
        target_words,
        stack=InputFeedingLstm(width, hidden, cfg.num_layers, attention, cfg.dropout, dropout_input=cfg.dropout_input),
        output=build_output_layer(cfg, hidden, width, dictionary),
        dropout=on_input,
    )
    return cls(encoder, decoder)
