"""The tables of PC-SAN (KSII TIIS 14(8), 2020), and the one of its baselines (MTA-LSTM, Feng et al., IJCAI 2018).

PC-SAN's tables are images that were not read: its rows have no numbers, only those systems that its text names.
"""

from .tables import OWN, RATED, SHEETS, Column, Row, Table

_PAPER = "PC-SAN (KSII TIIS 14(8), 2020)"
_MTA = "MTA-LSTM (Feng et al., IJCAI 2018)"
_EXPERIMENTS = {"essay": ("essay*", "*_essay", "*_essay_*"), "zhihu": ("*zhihu*",)}
_BLEU2 = Column("BLEU-2", ("paper:pc-san/BLEU-2",))
_COLUMNS = (_BLEU2, Column("diversity", ("paper:pc-san/Diver",)))


def _unread(systems: dict[str, str]) -> dict[str, dict[str, Row]]:
    """Rows without numbers, on both data sets."""
    return {
        data: {
            name: Row((None, None), "who ran it was not read", "unread", (system,)) for name, system in systems.items()
        }
        for data in _EXPERIMENTS
    }


_COMMANDS = {
    "essay": "`SYSTEMS={system} DATA=path/to/essay BERT=path/to/bert bash examples/pc_san/essay.sh`",
    "zhihu": "`SYSTEMS={system} DATA=path/to/zhihu BERT=path/to/bert bash examples/pc_san/zhihu.sh`",
}
_ABLATION_COMMANDS = {
    data: f"`SET={data} SYSTEMS={{system}} DATA=path/to/{data} BERT=path/to/bert bash examples/pc_san/ablations.sh`"
    for data in _EXPERIMENTS
}

AUTOMATIC = Table(
    source=f"{_PAPER}, automatic evaluation",
    title="essays from topic words",
    columns=_COLUMNS,
    preset="paper:pc-san",
    rows=_unread(
        {
            "SC-LSTM": "sc_lstm",
            "PPG": "ppg",
            "MTA-LSTM": "mta_lstm",
            "Transformer": "transformer",
            "PC-SAN": "pc_san",
        }
    ),
    experiments=_EXPERIMENTS,
    commands=_COMMANDS,
    note="The paper does not say which BLEU it means; BLEU-2 is its baseline paper's. Its text says that PC-SAN gains "
    "8.75% in BLEU and 9.91% in diversity over MTA-LSTM, the mean of both data sets.",
)

TABLE4 = Table(
    source=f"{_PAPER}, Table 4",
    title="which layers of BERT are read",
    columns=_COLUMNS,
    preset="paper:pc-san",
    rows=_unread({"-None": "no_bert", "-Last": "last_layer", "-Static": "static_mixture", "PC-SAN": "pc_san"}),
    experiments=_EXPERIMENTS,
    commands=_ABLATION_COMMANDS,
    note="Its text says that a mixture for each layer gains 17.15% in BLEU and 16.05% in diversity over -Static.",
)

TABLE5 = Table(
    source=f"{_PAPER}, Table 5",
    title="which context the queries know",
    columns=_COLUMNS,
    preset="paper:pc-san",
    rows=_unread({"-None-context": "no_context", "-Source-context": "source_context", "PC-SAN": "pc_san"}),
    experiments=_EXPERIMENTS,
    commands=_ABLATION_COMMANDS,
    note="Its text says that the context of the target gains 8.75% in BLEU and 2.95% in diversity over the others; "
    "the 8.75% stands there for the gain over MTA-LSTM too, so one of the two may be a slip.",
)

_LSTM_COMMANDS = {
    data: f"`SYSTEMS={{system}} DATA=path/to/{data} bash examples/mta_lstm/essay.sh`" for data in _EXPERIMENTS
}


def _bleu2(scores: dict[str, tuple[str, float]]) -> dict[str, Row]:
    """The rows of MTA-LSTM's table on one data set."""
    recipes = {
        "ppg": "`DATA=path/to/data bash examples/ppg/essay.sh`",
        "sc_lstm": "`DATA=path/to/data bash examples/sc_lstm/essay.sh`",
    }
    return {
        name: Row((score,), OWN, "mta-bleu2", (system,), command=recipes.get(system, ""))
        for name, (system, score) in scores.items()
    }


MTA_BLEU = Table(
    source=f"{_MTA}, automatic evaluation",
    title="essays from topic words, PC-SAN's baselines in the paper of MTA-LSTM",
    columns=(_BLEU2,),
    preset="paper:pc-san",
    rows={
        "essay": _bleu2(
            {
                "PNN": ("ppg", 1.39),
                "SC-LSTM": ("sc_lstm", 4.15),
                "TAV-LSTM": ("tav_lstm", 3.49),
                "TAT-LSTM": ("tat_lstm", 3.93),
                "MTA-LSTM": ("mta_lstm", 4.43),
            }
        ),
        "zhihu": _bleu2(
            {
                "PNN": ("ppg", 0.89),
                "SC-LSTM": ("sc_lstm", 1.42),
                "TAV-LSTM": ("tav_lstm", 1.18),
                "TAT-LSTM": ("tat_lstm", 1.52),
                "MTA-LSTM": ("mta_lstm", 1.73),
            }
        ),
    },
    experiments=_EXPERIMENTS,
    commands=_LSTM_COMMANDS,
)

MTA_HUMAN = Table(
    source=f"{_MTA}, human evaluation",
    title="human ratings of essays",
    columns=tuple(
        Column(label) for label in ("integrity", "relevance", "fluency", "coherence", "mean", "average length")
    ),
    rows={
        "essay": {
            name: Row(scores, RATED, "raters", (system,))
            for name, system, scores in (
                ("PNN", "ppg", (2.46, 2.77, 3.67, 2.25, 2.79, 97.17)),
                ("SC-LSTM", "sc_lstm", (3.20, 3.36, 3.99, 3.15, 3.43, 95.31)),
                ("TAV-LSTM", "tav_lstm", (2.18, 2.89, 3.63, 2.74, 2.86, 62.25)),
                ("TAT-LSTM", "tat_lstm", (2.34, 3.14, 3.71, 2.88, 3.02, 77.82)),
                ("MTA-LSTM", "mta_lstm", (3.28, 3.92, 4.18, 3.37, 3.69, 96.43)),
            )
        }
    },
    commands={"essay": SHEETS},
)

TABLES = {
    "pcsan-automatic": AUTOMATIC,
    "pcsan-table4": TABLE4,
    "pcsan-table5": TABLE5,
    "mta-automatic": MTA_BLEU,
    "mta-human": MTA_HUMAN,
}
