"""Draw figures that are computed from checkpoints: layers of BERT, attention, and neighbours of words."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ..errors import UserError
from ..evaluation import granularity
from ..evaluation.layer_mixture import load_mixture
from ..evaluation.neighbours import load_embedding
from ..evaluation.tables import Table
from ..evaluation.text_files import read_lines
from ..evaluation.tokenizers import has_chinese
from . import figures, trace
from .document import Block, ListBlock, Write
from .dumps import Attention
from .runs import Run

_ATTENDING = 30  # maximum number of output words in the figure of attention
_WORDS = 8  # number of words whose neighbours are shown
_NEIGHBOURS = 4  # number of neighbours of each word
_FREQUENT = 300  # number of most frequent words from which these words are chosen
_DICTIONARY = "dict.src.txt"


def from_checkpoints(run: Run, seed: str, write: Write) -> Iterator[Block]:
    """Yield figures from checkpoints: layers of BERT, attention in one sentence, and neighbours of some words."""
    checkpoints = {system.name: file for system in run.systems.values() if (file := system.checkpoint) is not None}
    for name, file in checkpoints.items():
        weights = _mixture(str(file))
        if weights:
            caption = f"{name}: weights of BERT's layers"
            yield write(partial(figures.layer_weights, weights), f"{name} layers", caption)
    if not checkpoints:
        return
    missing: list[str] = []
    example = find_example(run)
    if example is None:
        missing.append(f"attention and neighbours: there is no bin directory with the dictionaries ({_DICTIONARY})")
    else:
        data, line = example
        if line:
            yield from _attention(checkpoints, data, line, write, missing)
        yield from _neighbours(run, checkpoints, data / _DICTIONARY, seed, missing)
    if missing:
        yield ListBlock("Not shown", missing, folded=True)


def _mixture(checkpoint: str) -> list[list[float]]:
    """Return the mixing weights of BERT's layers in a checkpoint, or an empty list if there are none."""
    try:
        weights: list[list[float]] = load_mixture(checkpoint).tolist()
    except UserError:
        return []
    return weights


def find_example(run: Run) -> tuple[Path, str] | None:
    """Return a run's data directory and a short sentence of its first test set, or None without dictionaries.

    Recipes store the decoded data in ``bin-SET``, in the word pieces that the models read. The sentence is empty if the
    text is missing.
    """
    likely = [run.path / f"bin-{name}" for name in run.sets]
    folders = [*likely, *sorted(run.path.glob("bin*")), *sorted(run.root.glob("bin*"))]
    data = next((folder for folder in folders if run.may_show(folder / _DICTIONARY)), None)
    if data is None:
        return None
    texts = [data / "test.src-tgt.src", *(run.path / f"text-{name}" / "test.src" for name in run.sets)]
    text = next(filter(run.may_show, texts), None)
    try:
        lines = [line for line in read_lines(text) if line.strip()] if text else []
    except UserError:
        lines = []
    few = granularity.spread(lines, 12)
    return data, min(few, key=lambda line: abs(len(line.split()) - 10)) if few else ""


def _attention(
    checkpoints: dict[str, Path], data: Path, line: str, write: Write, missing: list[str]
) -> Iterator[Block]:
    for name, file in checkpoints.items():
        try:
            (traced,) = trace.trace_attention(trace.open_model(str(file), str(data)), [line])
        except UserError as error:
            missing.append(f"attention of {name}: {_hide_path(error, file)}")
        except Exception as error:  # noqa: BLE001 - a checkpoint of another version may fail anywhere in the host
            what = f"{type(error).__name__}: {_hide_path(error, file)}"
            missing.append(f"attention of {name}: its checkpoint does not load here ({what})")
        else:
            first = Attention(traced.source, traced.output[:_ATTENDING], traced.weights[:_ATTENDING])
            cut = f" by the first {_ATTENDING} words" if len(traced.output) > _ATTENDING else ""
            caption = f"{name}: attention on one sentence of the test set{cut}"
            yield write(partial(figures.attention, [first]), f"{name} attention", caption)


def _neighbours(
    run: Run, checkpoints: dict[str, Path], dictionary: Path, seed: str, missing: list[str]
) -> Iterator[Table]:
    columns: dict[str, list[str]] = {}
    asked: list[str] = []
    for name, file in checkpoints.items():
        try:
            near = load_embedding(str(file), str(dictionary), name=None)
        except UserError as error:
            missing.append(f"neighbours of {name}: {_hide_path(error, file)}")
            continue
        asked = asked or granularity.spread(_content_words(run, near.words), _WORDS)
        neighbours = near.look_up(asked, _NEIGHBOURS)
        columns[name] = [", ".join(f"{other} {cosine:.2f}" for other, cosine in others) for _, others in neighbours]
    if asked:
        rows = [[word, *(column[row] for column in columns.values())] for row, word in enumerate(asked)]
        caption = f"Nearest neighbours of some frequent words in the embedding, with their cosines{seed}"
        yield Table(["word", *columns], rows, align="l" * (len(columns) + 1), caption=caption)


def _hide_path(error: Exception, file: Path) -> str:
    """Return an error message without directories, because other people read a report."""
    return str(error).replace(str(file), file.name).replace(f"{file.parent}/", "")


def _content_words(run: Run, words: Sequence[str]) -> list[str]:
    """Return frequent words that are not function words, numbers or punctuation.

    The words are taken from the test text and must be in the dictionary. The dictionary is only the second choice,
    because it may contain word pieces. If there is no test text, the words are entries of the dictionary.
    """
    text = next((test.sources for test in run.sets.values() if test.sources), [])
    counts = Counter(word for line in text for word in line.split())
    dictionary = set(words)
    frequent = [word for word, _ in counts.most_common() if word in dictionary] or list(words)
    return [
        word
        for word in frequent[:_FREQUENT]
        if word.isalnum()
        and word[0].isalpha()
        and word.lower() not in granularity.FUNCTION_WORDS
        and (len(word) > 2 or has_chinese(word))
    ]
