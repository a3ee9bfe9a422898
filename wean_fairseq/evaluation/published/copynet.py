"""The tables of CopyNet (Gu et al., ACL 2016). Its Table 2 counts the pairs of LCSTS and has no score."""

from .tables import HU, OWN, Column, Row, Table

_PAPER = "CopyNet (Gu et al., ACL 2016)"


def _exact(system: str, *scores: float) -> Row:
    """A row of the paper's own, in percent of exact outputs."""
    return Row(scores, OWN, "exact", (system,))


TABLE1 = Table(
    source=f"{_PAPER}, Table 1",
    title="synthetic rules, percent of outputs that are right, by type of rule",
    columns=tuple(
        Column(label, (f"paper:copynet-synthetic/exact@1[{group}]",), decimals=1)
        for label, group in {
            "x -> none": "x-to-empty",
            "x -> x": "x-to-x",
            "x -> xx": "x-to-xx",
            "xy -> x": "xy-to-x",
            "xy -> xy": "xy-to-xy",
        }.items()
    ),
    preset="paper:copynet-synthetic",
    rows={
        "synthetic": {
            "Enc-Dec": _exact("enc_dec", 100.0, 3.3, 1.5, 2.9, 0.0),
            "RNNSearch": _exact("rnnsearch", 99.0, 69.4, 22.3, 40.7, 2.6),
            "CopyNet": _exact("copynet", 97.3, 93.7, 98.3, 68.2, 77.5),
        }
    },
    experiments={"synthetic": ("*synthetic*",)},
    commands={"synthetic": "`SYSTEMS={system} bash examples/copynet/synthetic.sh`"},
    note="The authors' rules are not public: ours are generated after their description.",
)

TABLE3 = Table(
    source=f"{_PAPER}, Table 3",
    title="summarisation on LCSTS",
    columns=tuple(Column(f"ROUGE-{kind}", (f"paper:copynet-lcsts/ROUGE-{kind}",), decimals=1) for kind in "12L"),
    preset="paper:copynet-lcsts",
    rows={
        "lcsts by characters": {
            "RNN": Row((21.5, 8.9, 18.6), HU, "copied-rouge", ("enc_dec_lcsts",)),
            "RNN context": Row((29.9, 17.4, 27.2), HU, "copied-rouge", ("rnnsearch_lcsts",)),
            "CopyNet": Row((34.4, 21.6, 31.3), OWN, "copynet-rouge", ("copynet_lcsts",)),
        },
        "lcsts by words": {
            "RNN": Row((17.7, 8.5, 15.8), HU, "copied-rouge", ("enc_dec_lcsts",)),
            "RNN context": Row((26.8, 16.1, 24.1), HU, "copied-rouge", ("rnnsearch_lcsts",)),
            "CopyNet": Row((35.0, 22.3, 32.0), OWN, "copynet-rouge", ("copynet_lcsts",)),
        },
    },
    experiments={"lcsts by characters": ("*lcsts_char*",), "lcsts by words": ("*lcsts_word*",)},
    commands={
        "lcsts by characters": "`SYSTEMS={system} DATA=path/to/LCSTS bash examples/copynet/lcsts_char.sh`",
        "lcsts by words": "`SYSTEMS={system} DATA=path/to/LCSTS bash examples/copynet/lcsts_word.sh`",
    },
)

TABLE4 = Table(
    source=f"{_PAPER}, Table 4",
    title="single-turn dialogue, percent of inputs whose response is the best output, or among the ten best",
    columns=(
        Column("top 1", ("paper:copynet-dialogue/exact@1",), decimals=1),
        Column("top 10", ("paper:copynet-dialogue/exact@10",), decimals=1),
    ),
    preset="paper:copynet-dialogue",
    rows={
        "DS-I": {"RNNSearch": _exact("rnnsearch", 44.1, 57.7), "CopyNet": _exact("copynet", 61.2, 71.0)},
        "DS-II": {"RNNSearch": _exact("rnnsearch", 13.5, 15.9), "CopyNet": _exact("copynet", 50.5, 64.8)},
    },
    experiments={"DS-I": ("*dialogue_ds1*",), "DS-II": ("*dialogue_ds2*",)},
    commands={
        "DS-I": "`SETS=ds1 SYSTEMS={system} bash examples/copynet/dialogue.sh`",
        "DS-II": "`SETS=ds2 SYSTEMS={system} bash examples/copynet/dialogue.sh`",
    },
    note="The paper's dialogues were never released: ours are generated, a re-creation and not a replication.",
)

TABLES = {"copynet-table1": TABLE1, "copynet-table3": TABLE3, "copynet-table4": TABLE4}
