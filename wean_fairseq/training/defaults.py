"""Defaults for trainings on the user's own data. The recipe for own pairs reads them through this command line.

    python -m wean_fairseq.training.defaults archs TASK             # or bert: those that read BERT's features
    python -m wean_fairseq.training.defaults dictionary BPE         # largest number of words, least frequency
    python -m wean_fairseq.training.defaults sizes PAIRS TASK       # width, epochs, learning rate, arch
    python -m wean_fairseq.training.defaults options ARCH WIDTH RATE TEXT

The last command prints one argument per line. The first word of a line is the argument's kind: ``criterion``,
``training``, ``search`` or ``score``.
"""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..console import exit_status
from ..errors import UserError
from ..storage.files import read_regular
from ..storage.search import NO_UNKNOWN

#: Archs that can be trained on sentence pairs alone. dnpg also needs labels of words, and fset also needs similar
#: pairs.
ARCHS = tuple(
    """wean_lstm wean_lstm_pwkp wean_lstm_ew_sew wean_lstm_lcsts seq2seq_lstm seq2seq_lstm_lcsts copynet copynet_lcsts
    copynet_lcsts_full copynet_lcsts_release copynet_full copynet_release rnnsearch rnnsearch_lcsts enc_dec
    enc_dec_lcsts pointer_generator pointer_generator_coverage pointer_generator_see2017 residual_lstm
    stacked_lstm nts nts_w2v enc_dec_a dress_ls srb rnn_distract drgd paraphrase_transformer copy_transformer
    granularity_transformer granularity_transformer_mean granularity_transformer_product granularity_transformer_release
    granularity_transformer_resonance granularity_transformer_scope""".split()
)
#: Archs that write a text about topic words.
TOPIC_ARCHS = ("mta_lstm", "tat_lstm", "tav_lstm", "sc_lstm", "essay_transformer", "essay_transformer_small")
ARCHS_OF = {"pairs": ARCHS, "essay": TOPIC_ARCHS}  # archs by task
BERT_ARCHS = ("paraphrase_transformer", "copy_transformer")  # archs in ARCHS that read the features of --bert
_NO_VECTORS = """
    residual_lstm stacked_lstm nts nts_w2v enc_dec_a dress_ls srb rnn_distract drgd
""".split()
VECTOR_ARCHS = tuple(arch for arch in ARCHS if arch not in _NO_VECTORS)  # archs with the option --embedding-file
_ENC_DEC = ("enc_dec", "enc_dec_lcsts")  # archs from the CopyNet paper
# archs in ARCHS without attention, which cannot replace <unk>
WITHOUT_ATTENTION = (*_ENC_DEC, "residual_lstm", "stacked_lstm")
HEADS = 4  # number of heads of Transformers. The width must be a multiple of it
_WORDS = 50_000
_SCORES = ("--metric", "bleu", "sari", "rouge-l", "copy-rate", "length-ratio")
_ESSAY_SCORES = ("--metric", "bleu2", "rouge-l", "distinct-2", "topic-coverage", "length-ratio")


class Sizes(NamedTuple):
    """Sizes of model and training that suit a certain number of pairs."""

    width: int
    epochs: int
    rate: float
    arch: str


# Maximum number of pairs (exclusive) -> sizes. A wide model overfits on few pairs, so small data sets get a narrower
# model and more epochs. The archs for up to 10,000 pairs are based on measurements (results/few_pairs_*.json).
# --patience usually ends the trainings before the last epoch.
_SIZES = {
    2_000: Sizes(64, 40, 0.003, "copynet"),
    5_000: Sizes(64, 30, 0.003, "copynet"),
    50_000: Sizes(128, 25, 0.002, "copynet"),
}
_MANY = Sizes(256, 8, 0.001, "wean_lstm")
_ESSAYS = "essay_transformer_small"


def sizes_for(pairs: int, task: str = "pairs") -> Sizes:
    """Return the sizes for a task and its number of training pairs.

    For 3,600 sentences of CommonGen, BLEU-2 was 21.7 for the Transformer and 5.9 for MTA-LSTM (docs/own_pairs.md).
    """
    sizes = next((sizes for limit, sizes in _SIZES.items() if pairs < limit), _MANY)
    return sizes._replace(arch=_ESSAYS) if task == "essay" else sizes


def dictionary_for(merges: int) -> tuple[int, int]:
    """Return the maximum number of words in the dictionary, and the minimum frequency of its words.

    Words that occur only once become ``<unk>``, so that the embedding of ``<unk>`` is trained. With word pieces, all
    pieces are in the dictionary.
    """
    return _WORDS, 0 if merges else 2


@dataclass(frozen=True)
class Options:
    """The options of fairseq-train, fairseq-generate and wean-evaluate for an arch."""

    criterion: str
    sizes: tuple[str, ...]
    optimisation: tuple[str, ...]
    search: tuple[str, ...]
    score: tuple[str, ...] = _SCORES

    def lines(self) -> list[str]:
        """Return one line per argument, which starts with the kind of the argument."""
        kinds = {
            "criterion": (self.criterion,),
            "training": self.sizes + self.optimisation,
            "search": self.search,
            "score": self.score,
        }
        return [f"{kind} {argument}" for kind, arguments in kinds.items() for argument in arguments]


def options_for(arch: str, width: str, rate: str, text: Path, patience: int = 4) -> Options:
    """Return the options for an arch.

    Numbers are passed as text, because a resumed training is recognised by equal texts.

    Args:
        text: folder of the prepared text, from which the lengths of essays are computed.
        patience: number of validations without improvement that end a training.
    """
    optimisation = (
        *("--optimizer", "fused_adam", "--adam-betas", "(0.9, 0.999)", "--lr", rate, "--clip-norm", "2"),
        *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "200", "--batch-size", "64"),
        *("--no-epoch-checkpoints", "--patience", str(patience)),
    )
    if arch in TOPIC_ARCHS:
        return _essay_options(arch, width, optimisation, text)
    criterion, search = "model_loss", []
    sizes = ["--embed-dim", width, "--hidden-size", width]
    dropout = ["--dropout", "0.3"]
    if arch.startswith(("wean_lstm", "seq2seq_lstm")):
        criterion, search = "query_embedding", ["--search-preset", "wean"]
    elif arch.startswith(("copynet", "rnnsearch")) or arch in _ENC_DEC:
        search = ["--search-preset", "copynet"]
    elif arch.startswith("pointer_generator"):
        dropout = []  # the arch has no option for dropout
    elif "_transformer" in arch:
        sizes = ["--embed-dim", width, "--ffn-dim", str(int(width) * 4), "--attention-heads", str(HEADS)]
    if not arch.startswith(("copynet", "pointer_generator", "copy_transformer")) and arch not in WITHOUT_ATTENTION:
        search.append("--replace-unk")
    return Options(
        criterion, (*sizes, *dropout), optimisation, (*search, "--beam", "5", "--max-len-a", "2", "--max-len-b", "10")
    )


def _essay_options(arch: str, width: str, optimisation: tuple[str, ...], text: Path) -> Options:
    """Return the options for an arch that writes about topics.

    The length of an output must be between half of the mean length of the training texts and twice this length.
    """
    topics = max(5, most_topics(text))
    lengths = _lengths(text / "train.tgt")
    words = round(sum(lengths) / len(lengths)) + 1  # plus 1 for the end symbol
    reads = ("--max-topics", str(topics))
    sizes = ["--embed-dim", width, "--hidden-size", width]
    if "_transformer" in arch:
        by_side = {"embed-dim": width, "ffn-embed-dim": str(int(width) * 4), "attention-heads": str(HEADS)}
        sizes = [
            word
            for name, value in by_side.items()
            for side in ("encoder", "decoder")
            for word in (f"--{side}-{name}", value)
        ]
    elif arch == "mta_lstm":
        sizes += ["--topic-slots", str(topics)]
    # The loss of mta_lstm and sc_lstm has an additional term. Therefore the best checkpoint is chosen only by the
    # likelihood.
    optimisation += ("--best-checkpoint-metric", "nll_loss")
    length = ("--essay-length", str(words)) if arch == "mta_lstm" else ()
    search = (*reads, *length, "--beam", "5", "--max-len-a", "0", "--max-len-b", str(2 * words))
    search += ("--min-len", str(words // 2), "--unkpen", f"{NO_UNKNOWN:g}")
    criterion = "query_embedding" if "_transformer" in arch else "model_loss"
    return Options(criterion, (*sizes, "--dropout", "0.3", *reads), optimisation, search, _ESSAY_SCORES)


def most_topics(text: Path) -> int:
    """Return the maximum number of topics in a row of a prepared text."""
    return max(max(_lengths(text / f"{split}.src"), default=0) for split in ("train", "valid", "test"))


def _lengths(file: Path) -> list[int]:
    """Return the number of tokens of each line of a file. Return an empty list if the file is missing."""
    return [len(line.split()) for line in read_regular(file, -1).splitlines()] if file.is_file() else []


def main(arguments: list[str]) -> str:
    """Return the values for which the recipe asks, see the docstring of the module.

    Raises:
        UserError: if the arguments are not valid.
    """
    try:
        what, *values = arguments
        if what == "archs":
            return " ".join({**ARCHS_OF, "bert": BERT_ARCHS}[values[0]])
        if what == "dictionary":
            return " ".join(map(str, dictionary_for(int(values[0]))))
        if what == "sizes":
            return " ".join(map(str, sizes_for(int(values[0]), values[1])))
        arch, width, rate, text = values
    except (IndexError, KeyError, ValueError):
        raise UserError(f"{shlex.join(arguments)} is not a question about defaults; see the docstring.") from None
    return "\n".join(options_for(arch, width, rate, Path(text)).lines())


if __name__ == "__main__":
    sys.exit(exit_status("defaults", lambda: f"{main(sys.argv[1:])}\n"))
