"""The tables of C-DNPG (Gu et al., COLING 2022) that hold scores: 2, 4 and 5; and DNPG's own (Li et al., ACL 2019)."""

from .tables import OWN, RATED, Column, Row, Table

_PAPER = "C-DNPG (Gu et al., COLING 2022)"
_SHEETS = "ratings; `wean-evaluate sheet --kind compare` makes the sheets, `wean-evaluate ratings` analyses them"
_HOURS = "hours; benchmarks/results/granularity.md has the cost of a step relative to the Transformer's"


def _row(system: str, *scores: float) -> Row:
    """A row that the paper ran."""
    return Row(scores, OWN, "cdnpg", (system,))


def _fset(*scores: float | None) -> Row:
    """The row that the paper copied."""
    return Row(scores, "copied from Kazemnejad et al. (ACL 2020)", "fset")


def _column(label: str, ours: str = "", both: bool = True) -> Column:
    """A column; iBLEU alone differs between the two presets."""
    name = ours or label
    presets = ("compat", "fixed") if both else ("compat",)
    return Column(label, tuple(f"paper:cdnpg-{preset}/{name}" for preset in presets), ours)


TABLE2 = Table(
    source=f"{_PAPER}, Table 2",
    title="paraphrases",
    preset="paper:cdnpg-compat",
    columns=(
        _column("iBLEU", both=False),
        _column("BLEU-2"),
        _column("BLEU-4"),
        _column("ROUGE-L"),
        _column("METEOR", ours="METEOR-es"),
    ),
    rows={
        "quora": {
            "ResidualLSTM": _row("residual_lstm", 20.45, 40.71, 26.20, 36.19, 32.67),
            "Pointer-generator": _row("pointer_generator", 22.65, 43.82, 28.80, 42.36, 40.87),
            "Transformer": _row("transformer", 21.14, 37.97, 26.88, 40.14, 38.21),
            "Transformer+Copy": _row("copy_transformer", 22.90, 44.42, 28.94, 37.60, 38.34),
            "DNPG": _row("dnpg", 24.55, 47.72, 31.01, 42.37, 42.12),
            "FSET": _fset(None, 51.03, 33.46, None, 38.57),
            "C-DNPG (R)": _row("cdnpg_r", 26.94, 47.58, 34.05, 46.17, 44.75),
            "C-DNPG (S)": _row("cdnpg_s", 26.68, 47.48, 33.93, 46.22, 46.66),
            "C-DNPG (R*S)": _row("cdnpg_rs", 25.96, 46.25, 33.02, 44.64, 44.25),
            "C-DNPG (R+S)": _row("cdnpg_r+s", 26.66, 50.96, 33.69, 44.45, 43.33),
        },
        "twitter_url": {
            "ResidualLSTM": _row("residual_lstm", 20.29, 36.75, 25.92, 32.47, 29.44),
            "Pointer-generator": _row("pointer_generator", 25.60, 44.50, 32.40, 38.48, 36.48),
            "Transformer": _row("transformer", 24.44, 44.45, 31.12, 31.97, 32.49),
            "Transformer+Copy": _row("copy_transformer", 27.07, 48.44, 34.35, 38.37, 38.19),
            "DNPG": _row("dnpg", 25.92, 46.36, 32.91, 36.77, 36.28),
            "FSET": _fset(None, 46.35, 34.62, None, 31.67),
            "C-DNPG (R)": _row("cdnpg_r", 27.96, 49.98, 35.80, 38.67, 39.39),
            "C-DNPG (S)": _row("cdnpg_s", 28.19, 49.10, 35.95, 38.89, 39.06),
            "C-DNPG (R*S)": _row("cdnpg_rs", 30.25, 49.00, 38.58, 41.60, 41.71),
            "C-DNPG (R+S)": _row("cdnpg_r+s", 28.73, 50.49, 36.61, 39.80, 40.42),
        },
    },
    experiments={"quora": ("*quora*",), "twitter_url": ("*twitter*",)},
    commands={
        "quora": "`SETS=quora SYSTEMS={system} QUORA=path/to/quora bash examples/granularity_transformer/table2.sh`",
        "twitter_url": "`SETS=twitter_url SYSTEMS={system} TWITTER_URL=path/to/twitter_url "
        "bash examples/granularity_transformer/table2.sh`",
    },
    note=(
        "The published iBLEU fits the defect of the released code, which compares with the letters of the first source "
        "word: it says almost nothing of copying. On Quora a copy of the source has more BLEU and ROUGE-L than every "
        "published row. The row FSET has its own preprocessing and scorer, and is not implemented here."
    ),
)

TABLE4 = Table(
    source=f"{_PAPER}, Table 4",
    title="raters' choice between C-DNPG and another system, percent",
    columns=tuple(
        Column(f"{question}: {part}", decimals=3 if part == "kappa" else 1)
        for question in ("relevance", "fluency")
        for part in ("win", "tie", "loss", "kappa")
    ),
    rows={
        "human comparison": {
            f"against {other}": Row(scores, RATED, "rater-pairs", ("cdnpg_rs",))
            for other, scores in {
                "Transformer": (67.8, 14.3, 17.8, 0.156, 67.5, 15.8, 16.7, 0.166),
                "DNPG": (72.3, 12.8, 14.8, 0.171, 68.1, 17.5, 14.3, 0.194),
                "human": (43.7, 10.5, 45.8, 0.079, 43.2, 11.0, 45.8, 0.095),
            }.items()
        }
    },
    commands={"human comparison": _SHEETS},
)

TABLE5 = Table(
    source=f"{_PAPER}, Table 5",
    title="hours of training on Quora",
    columns=(Column("hours", decimals=1),),
    rows={
        "quora": {
            "Transformer": Row((1.2,), OWN, "clock", ("transformer",)),
            "Transformer+Copy": Row((1.2,), OWN, "clock", ("copy_transformer",)),
            "DNPG": Row((3.6,), OWN, "clock", ("dnpg",)),
            "C-DNPG": Row((1.5,), OWN, "clock", ("cdnpg_rs",)),
        }
    },
    commands={"quora": _HOURS},
)


def _dnpg(system: str, *scores: float, recipe: str = "") -> Row:
    """A row of the paper of DNPG, which has a recipe of its own here."""
    command = f"`SYSTEMS={system} DATA=path/to/quora bash examples/{recipe}/quora.sh`"
    origin = OWN if system == "dnpg" else "run or copied by the paper, which of the two is not known here"
    return Row(scores, origin, "dnpg", (system,) if recipe else (), command=command if recipe else "")


DNPG_TABLE4 = Table(
    source="DNPG (Li et al., ACL 2019), Table 4",
    title="paraphrases on Quora, the baselines of C-DNPG in the paper of DNPG",
    columns=tuple(Column(label, (label.lower(),)) for label in ("BLEU", "iBLEU", "ROUGE-1", "ROUGE-2")),
    preset="standard",
    rows={
        "quora": {
            "ResidualLSTM": _dnpg("residual_lstm", 17.57, 12.67, 59.22, 32.40, recipe="residual_lstm"),
            "VAE-SVG-eq": _dnpg("", 20.04, 15.17, 59.98, 33.30),
            "Pointer-generator": _dnpg("pointer_generator", 22.65, 16.79, 61.96, 36.07, recipe="pointer_generator"),
            "Transformer": _dnpg("transformer", 21.73, 16.25, 60.25, 33.45, recipe="copy_transformer"),
            "Transformer+Copy": _dnpg("copy_transformer", 24.77, 17.98, 63.34, 37.31, recipe="copy_transformer"),
            "DNPG": _dnpg("dnpg", 25.03, 18.01, 63.73, 37.75, recipe="dnpg"),
        }
    },
    experiments={"quora": ("*quora*",)},
    note="The paper's text is lower-cased and stemmed, with 8,000 words; ours is not stemmed.",
)

TABLES = {
    "cdnpg-table2": TABLE2,
    "cdnpg-table4": TABLE4,
    "cdnpg-table5": TABLE5,
    "dnpg-table4": DNPG_TABLE4,
}
