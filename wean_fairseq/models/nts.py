"""``nts``: NTS (Nisioi et al., ACL 2017, P17-2014), EncDecA and DRESS-LS (Zhang and Lapata, EMNLP 2017, D17-1062).

The defaults are the settings of NTS (section 2). Word embeddings may start from concatenated pre-trained vectors
(section 2.1). A lexical model (DRESS-LS) may be trained alone, on top of a base model that is loaded from a checkpoint.

Legend: ``B`` batch, ``N`` hypotheses, ``S`` source length, ``T`` target length, ``E`` embedding width (the last
dimensions of a word are its local vector), ``H`` hidden width, ``L`` layers, ``V`` words, ``X`` width of the lexical
model.
"""

from dataclasses import dataclass, replace
from typing import Any, Optional, Self

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..data.word_vectors import load_word_vectors
from ..errors import UserError
from ..fields import option
from ..modules import LossSums, Memory, Step, fold_hypotheses, stacked_lstm
from ..modules.input_feeding import GLOBAL_SCORES, AttentionMemory, FedState, GlobalAttention, InputFeedingLstm
from ..modules.log_linear import LogLinearOutput
from .base import LossModel, StepDecoder, init_uniform_, register_family
from .recurrent_encoders import LstmEncoder
from .word_layers import OutputLayerConfig, build_output_layer


@dataclass
class NtsConfig(OutputLayerConfig):
    """Options of the model. Section numbers refer to NTS. All families share the options of the output layer."""

    embed_dim: int = option(500, "width of the word embeddings (sec. 2)", least=1)
    hidden_size: int = option(500, "units of every layer, and of the attention (sec. 2)", least=1)
    num_layers: int = option(2, "LSTM layers of the encoder, and of the decoder (sec. 2)", least=1)
    attention_score: ChoiceEnum(GLOBAL_SCORES) = option(  # type: ignore[valid-type]
        "general", "score of a source position: general = h_t W_a h_i (sec. 2), dot = h_t h_i"
    )
    dropout: float = option(0.3, "dropout between layers and on the attentional state (sec. 2, OpenNMT)")
    dropout_input: bool = option(
        False, "also apply dropout to all inputs of the first layers, including the fed state (authors of EncDecA)"
    )
    reverse_source: bool = option(False, "read the source from its end to its start (authors of EncDecA)")
    init_range: float = option(0.1, "initialise weights uniformly in [-x, x] (sec. 2); 0 = PyTorch's defaults", least=0)
    global_vectors: Optional[str] = option(  # fairseq cannot read `str | None`
        None,
        "file of initial word vectors (GloVe or word2vec text) for both embeddings (sec. 2.1)",
        reads_file=True,
    )
    local_source_vectors: Optional[str] = option(
        None,
        "file of initial vectors for the last --local-dim dimensions of the encoder's words (sec. 2.1)",
        reads_file=True,
    )
    local_target_vectors: Optional[str] = option(
        None,
        "file of initial vectors for the last --local-dim dimensions of the decoder's words (sec. 2.1)",
        reads_file=True,
    )
    local_dim: int = option(
        0,
        "number of the --embed-dim dimensions that are local vectors (sec. 2.1: 200); 0 = none",
        least=0,
        needs={"global_vectors": (), "local_source_vectors": (), "local_target_vectors": ()},
    )
    missing_vector_std: float = option(
        0.0,
        "initialise words that are missing in --global-vectors from N(0, x) (sec. 2.1: 0.9); "
        "0 = initialise them like other weights",
        least=0,
        needs={"global_vectors": ()},
    )
    freeze_vectors: bool = option(
        False,
        "do not train the words in --global-vectors (authors of EncDecA); --weight-decay would still shrink them",
    )
    lexical_dim: int = option(
        0, "width of the embedding and of the layers of an additional lexical model (DRESS-LS); 0 = none", least=0
    )
    lexical_share: float = option(
        0.1,
        "share of the lexical model in the log-probabilities from the second word on (authors of DRESS-LS)",
        least=0,
        most=1,
        needs={"lexical_dim": ()},
    )
    base_checkpoint: Optional[str] = option(
        None,
        "checkpoint of the base model, trained with the same options except those of the lexical model: the base is "
        "frozen and only the lexical model is trained, by its own loss; without it, the whole mixture is trained",
        reads_file=True,
    )


# Sizes of the models of Zhang and Lapata (EMNLP 2017), as in their code for WikiLarge.
_SIZES = {"embed_dim": 300, "hidden_size": 256, "attention_score": "dot", "dropout": 0.2}
_ENC_DEC_A = {**_SIZES, "dropout_input": True, "reverse_source": True}
PRESETS = {
    "nts_w2v": {"local_dim": 200, "missing_vector_std": 0.9},
    "enc_dec_a": _ENC_DEC_A,
    "dress_ls": {**_ENC_DEC_A, "lexical_dim": 256},
}


class WordEmbedding(nn.Embedding):
    """An embedding in which the vectors of selected words can be frozen at their initial values.

    With ``keeps_words`` it stores for each word whether it is frozen. Initially no word is frozen.
    """

    kept: Tensor | None

    def __init__(self, dictionary: Dictionary, embed_dim: int, *, keeps_words: bool = False) -> None:
        super().__init__(len(dictionary), embed_dim, dictionary.pad())
        # The flags are stored in checkpoints, so that the same words stay frozen when a training is resumed.
        self.register_buffer("kept", torch.zeros(len(dictionary), dtype=torch.bool) if keeps_words else None)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embed ``tokens`` of any shape (...): (..., E). Frozen words get no gradient.

        Because their gradient is 0, no optimiser changes them, even with momentum, unless weight decay is used.
        """
        embedded = super().forward(tokens)
        if self.kept is None:
            return embedded
        return torch.where(self.kept[tokens].unsqueeze(-1), embedded.detach(), embedded)


@torch.no_grad()
def start_from_files(words: WordEmbedding, dictionary: Dictionary, cfg: NtsConfig, local: str | None) -> None:
    """Initialise word embeddings from vector files. If words can be frozen, freeze all words that have a global vector.

    The vectors of ``--global-vectors`` fill the first E - ``--local-dim`` dimensions of a word. The vectors of the
    optional file ``local`` fill the other dimensions. Words without a global vector are drawn from N(0,
    ``--missing-vector-std``), or are unchanged if that option is 0.

    Raises:
        UserError: if the vectors cannot be used.
    """
    global_dim = words.embedding_dim - cfg.local_dim
    if cfg.global_vectors:
        vectors, has_vector = load_word_vectors(cfg.global_vectors, dictionary, global_dim)
        if cfg.missing_vector_std:
            drawn = torch.randn(int((~has_vector).sum()), global_dim) * cfg.missing_vector_std
            words.weight[~has_vector, :global_dim] = drawn.to(words.weight)
        words.weight[has_vector, :global_dim] = vectors[has_vector].to(words.weight)
        words.weight[dictionary.pad()].zero_()
        if words.kept is not None:
            words.kept.copy_(has_vector)
    if local:
        vectors, has_vector = load_word_vectors(local, dictionary, cfg.local_dim)
        words.weight[has_vector, global_dim:] = vectors[has_vector].to(words.weight)


_SHAPING = ("embed_dim", "hidden_size", "num_layers", "attention_score", "reverse_source", "freeze_vectors")


def is_lexical(name: str) -> bool:
    """Return True for a parameter of the lexical model."""
    return "lexical" in name.split(".")


def load_base(model: nn.Module, cfg: NtsConfig, task: FairseqTask) -> None:
    """Load the parameters of ``cfg.base_checkpoint`` into ``model``, except the parameters of the lexical model.

    Raises:
        UserError: if the checkpoint cannot be read, has another dictionary, or was trained with other options or
            another family.
    """
    path = str(cfg.base_checkpoint)
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    if hasattr(task, "check_dictionaries"):
        task.check_dictionaries(state["task_state"], path)
    trained = (state["cfg"] or {}).get("model")  # for some fairseq archs, this is a namespace
    for name in _SHAPING:
        trained_value, required_value = getattr(trained, name, None), getattr(cfg, name)
        if str(trained_value) != str(required_value):
            raise UserError(
                f"--base-checkpoint {path} must be of the nts family with the options of this model, but its "
                f"{name} is {trained_value} and not {required_value}."
            )
    shapes = {name: value.shape for name, value in model.state_dict().items() if not is_lexical(name)}
    trained_shapes = {name: value.shape for name, value in state["model"].items()}
    if shapes != trained_shapes:
        name = min(name for name in {*shapes, *trained_shapes} if shapes.get(name) != trained_shapes.get(name))
        raise UserError(f"--base-checkpoint {path} has other parameters than this model ({name}): give another one.")
    model.load_state_dict(state["model"], strict=False)


@dataclass(frozen=True)
class NtsMemory(Memory):
    """The encoder's output in the form that decoder steps read."""

    source: AttentionMemory
    start: FedState
    lexical: Tensor | None  # states of a lexical model, (B, S, X)


class NtsDecoder(StepDecoder[NtsMemory, FedState]):
    """An LSTM with input feeding. Words are scored from the attentional states.

    Dropout on the input words is used only with ``--dropout-input``. ``InputFeedingLstm`` describes the network.
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
    """A decoder combined with a lexical model.

    The lexical model reads the source through the attention of this decoder.

    Words are scored from the features of both models. As in the released code, the lexical model is used from the
    second word on.
    """

    output: LogLinearOutput
    learns_lexical_alone = False  # True if only the lexical model has a loss

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: NtsConfig) -> None:
        super().__init__(dictionary, embed_tokens, cfg)
        self.share = cfg.lexical_share
        self.lexical_dropout = nn.Dropout(cfg.dropout)

    def step(self, words: Tensor, memory: NtsMemory, state: FedState) -> tuple[Step, FedState]:
        """Return features (N, T, H + X + 1): attentional states, weighted lexical states, and the share."""
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
    """An LSTM encoder, optionally with the encoder of a lexical model.

    With ``--reverse-source`` it reads the words in reverse order.

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
        """See ``LstmEncoder``. With a lexical model, the outputs also contain its ``lexical`` states (B, S, X)."""
        encoded = super().forward(src_tokens.flip(1) if self.reverse else src_tokens)
        if self.reverse:
            encoded |= {name: encoded[name].flip(1) for name in ("encoder_out", "encoder_padding_mask")}
        if self.lexical is not None:
            encoded["lexical"] = self.lexical(src_tokens)["encoder_out"]
        return encoded


@register_family("nts", NtsConfig, PRESETS)
class NtsModel(LossModel):
    """An LSTM encoder, and an LSTM decoder with global attention and input feeding.

    Encoder and decoder have separate word embeddings.

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
        """Train only the lexical model from now on.

        The lexical model uses the base model's attention, so dropout in the base model is switched off.
        """
        assert isinstance(self.decoder, LexicalDecoder)
        self.decoder.learns_lexical_alone = True
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(is_lexical(name))

    def train(self, mode: bool = True) -> Self:
        """See ``nn.Module``. A frozen base model stays in evaluation mode."""
        super().train(mode)
        if isinstance(self.decoder, LexicalDecoder) and self.decoder.learns_lexical_alone:
            for module in (self.encoder.lstm, self.encoder.dropout, self.decoder.stack, self.decoder.dropout):
                module.eval()
        return self


def _check_lexical(cfg: NtsConfig) -> None:
    if cfg.base_checkpoint and not cfg.lexical_dim:
        raise UserError("--base-checkpoint is for a lexical model: give --arch dress_ls, or --lexical-dim.")
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
