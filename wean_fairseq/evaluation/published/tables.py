"""What a published table consists of, and the scorers that published numbers come from."""

from dataclasses import dataclass, field

#: Origins of rows, as several papers have them.
OWN = "the paper's own run"
RATED = "the paper's raters"
UNCHECKED = "(the attribution is general knowledge, that paper was not read)"
HU = f"copied from Hu et al., EMNLP 2015 {UNCHECKED}"
#: What makes ratings.
SHEETS = "ratings; `wean-evaluate sheet` makes the sheets, `wean-evaluate ratings` analyses them"

#: How a number was computed, as far as it is known.
SCORERS = {
    "mteval": "BLEU by mteval-v13a, which ignores the case of A to Z: the preset gives this number to the last digit "
    "from the released output",
    "nltk-method3": "NLTK's corpus BLEU, smoothing method 3, nine references (TurkCorpus' eight and Simple Wikipedia): "
    "not the scorer of the other rows; paper:nts gives this number to the last digit from the released output",
    "wean-bleu": "not known for certain, as no output was released; the code calls multi-bleu on lower-cased text",
    "wean-rouge": "not known for certain, as no output was released; the code calls ROUGE-1.5.5",
    "copied-rouge": "ROUGE as its own paper computed it, copied from there",
    "copynet-rouge": "ROUGE F1 on characters, the first 40 of each text (as in the authors' code)",
    "exact": "percent of inputs whose reference is among the best outputs",
    "cdnpg": "NLTK; in the released code mean sentence BLEU with smoothing method 7 (the numbers fit NLTK <= 3.4.5), "
    "ROUGE-L with beta 1.2, METEOR with WordNet, and an iBLEU that looks at the letters of the first source word",
    "dnpg": "BLEU, iBLEU (0.9 is the alpha that fits) and ROUGE on lower-cased, stemmed text",
    "fset": "its own preprocessing and scorer, copied by the paper",
    "raters": "mean of human ratings",
    "rater-pairs": "percent of pairs in which raters prefer C-DNPG, neither, or the other; kappa",
    "counted": "weights of the output layer, in millions, as the paper counts them",
    "clock": "hours on the authors' machine",
    "mta-bleu2": "BLEU-2 on words, as its paper computed it",
    "unread": "unknown, as the tables of this paper are images that were not read",
}


@dataclass(frozen=True)
class Column:
    """A column of a published table.

    Attributes:
        label: as the paper calls it.
        keys: the scores of ours that follow the same protocol, as ``wean-evaluate --json`` calls them; the first that
            a result has is shown. Empty where ours are not made by wean-evaluate.
        own: what ours measures, where it is not quite the same.
        decimals: as many as the paper prints.
    """

    label: str
    keys: tuple[str, ...] = ()
    own: str = ""
    decimals: int = 2


@dataclass(frozen=True)
class Row:
    """The published numbers of one system on one data set.

    Attributes:
        scores: one a column; ``None`` where the paper has none.
        origin: who ran the system, and where the paper has the number from.
        scorer: key of `SCORERS`.
        runs: what our result files call the system; empty = it is not implemented here: reported, not run.
        outputs: what the file of its released outputs is called; empty = none were released.
        experiments: result files of ours that hold it, if not those of the whole table.
        command: what would measure it, if not the command of the whole table.
    """

    scores: tuple[float | None, ...]
    origin: str
    scorer: str
    runs: tuple[str, ...] = ()
    outputs: str = ""
    experiments: tuple[str, ...] = ()
    command: str = ""


@dataclass(frozen=True)
class Table:
    """A published table.

    Attributes:
        source: paper and table.
        title: what it shows.
        columns: its columns.
        rows: data set -> system -> published numbers, in the paper's order.
        preset: the preset of this package that follows its protocol most closely; empty = no scores of outputs,
            ``standard`` = a protocol that no preset follows.
        references: how many the published scores of released outputs were computed against; 0 = none were released.
        experiments: data set -> patterns of the names of our results on it.
        commands: data set -> what would measure ours, in Markdown; ``{system}`` stands for the systems.
        note: what a reader of the numbers must know.
        beside: scores of ours that the paper does not print, but without which its columns mislead.
    """

    source: str
    title: str
    columns: tuple[Column, ...]
    rows: dict[str, dict[str, Row]]
    preset: str = ""
    references: int = 0
    experiments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    note: str = ""
    beside: tuple[Column, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The labels of the columns."""
        return tuple(column.label for column in self.columns)
