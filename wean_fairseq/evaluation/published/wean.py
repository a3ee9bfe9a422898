"""The tables of WEAN (Ma et al., NAACL 2018).

Few of its rows are its own: simplification systems come from Zhang and Lapata (EMNLP 2017) and Nisioi et al. (ACL
2017), with their scorers, summarisation systems from their own papers.
"""

from .tables import HU, OWN, RATED, SHEETS, UNCHECKED, Column, Row, Table

_PAPER = "WEAN (Ma et al., NAACL 2018)"
_DRESS = "from Zhang and Lapata (EMNLP 2017), outputs released with DRESS"
_DRESS_LARGE = "from Zhang and Lapata (EMNLP 2017), trained on WikiLarge, outputs released with DRESS"
_NTS = "copied from Nisioi et al. (ACL 2017)"
_PWKP_RECIPE = "`SYSTEMS={system} DATA=path/to/wikismall bash examples/nts/pwkp.sh`"
_EW_SEW_RECIPE = "`SYSTEMS={system} DATA=path/to/data TURK=path/to/turkcorpus bash examples/nts/ew_sew.sh`"
# BLEU rewards a copy of the source, SARI does not.
_SARI = Column("SARI", ("sari",))
_WEAN = ("wean_lstm_pwkp", "wean_lstm_ew_sew", "wean_lstm")
# Of a re-ranked system the metric that chose is part of the name.
_NTS_RUNS = ("nts", "nts_bleu", "nts_sari")
_NTS_W2V_RUNS = ("nts_w2v", "nts_w2v_bleu", "nts_w2v_sari")


def _zhang(score: float, outputs: str, *, large: bool = False, ours: bool = False) -> Row:
    """A row that comes from Zhang and Lapata's outputs; of these systems EncDecA alone is also ours."""
    origin = _DRESS_LARGE if large else _DRESS
    runs, command = (("enc_dec_a",), _EW_SEW_RECIPE if large else _PWKP_RECIPE) if ours else ((), "")
    return Row((score,), origin, "mteval", runs, outputs, command=command)


TABLE1 = Table(
    source=f"{_PAPER}, Table 1",
    title="simplification on PWKP",
    columns=(Column("BLEU", ("paper:wean-pwkp/BLEU",)),),
    beside=(_SARI,),
    preset="paper:wean-pwkp",
    references=1,
    rows={
        "pwkp": {
            "PBMT-R": _zhang(46.31, "PBMT-R"),
            "Hybrid": _zhang(53.94, "Hybrid"),
            "EncDecA": _zhang(47.93, "EncDecA", ours=True),
            "DRESS": _zhang(34.53, "Dress"),
            "DRESS-LS": _zhang(36.32, "Dress-Ls"),
            "Seq2seq": Row((48.26,), OWN, "wean-bleu", ("seq2seq_lstm",)),
            "WEAN": Row((54.54,), OWN, "wean-bleu", _WEAN),
        }
    },
    experiments={"pwkp": ("*pwkp*",)},
    commands={"pwkp": "`DATA=path/to/wikismall bash examples/wean_lstm/pwkp.sh`"},
    note="Of the published rows only Hybrid and WEAN beat a copy of the source.",
)

TABLE2 = Table(
    source=f"{_PAPER}, Table 2",
    title="simplification on EW-SEW (TurkCorpus, 8 references; the rows from NTS: 9 references and another scorer)",
    columns=(Column("BLEU", ("paper:wean-ew-sew/BLEU",)),),
    beside=(_SARI,),
    preset="paper:wean-ew-sew",
    references=8,
    rows={
        "ew-sew": {
            "PBMT-R": Row((67.79,), _NTS, "nltk-method3"),
            "Hybrid": _zhang(48.97, "Hybrid", large=True),
            "SBMT-SARI": Row((73.62,), _NTS, "nltk-method3", outputs="SBMT-SARI"),
            "NTS": Row(
                (84.70,),
                f"{_NTS}, beam 12, chosen by BLEU",
                "nltk-method3",
                _NTS_RUNS,
                "NTS",
                command=_EW_SEW_RECIPE,
            ),
            "NTS-w2v": Row(
                (87.50,),
                f"{_NTS}, beam 5, the default",
                "nltk-method3",
                _NTS_W2V_RUNS,
                "NTS-w2v",
                command=_EW_SEW_RECIPE,
            ),
            "EncDecA": _zhang(88.85, "EncDecA", large=True, ours=True),
            "DRESS": _zhang(77.18, "Dress", large=True),
            "DRESS-LS": _zhang(80.12, "Dress-Ls", large=True),
            "Seq2seq": Row((88.97,), OWN, "wean-bleu", ("seq2seq_lstm",)),
            "WEAN": Row((94.45,), OWN, "wean-bleu", _WEAN),
        }
    },
    experiments={"ew-sew": ("*turk*", "*ew_sew*")},
    commands={"ew-sew": "`DATA=path/to/data TURK=path/to/turkcorpus bash examples/wean_lstm/ew_sew.sh`"},
    note="The column was not made by one scorer, and a copy of the source beats every row of it. PBMT-R, SBMT-SARI, "
    "NTS and NTS-w2v were scored by the NTS scripts (`--preset paper:nts`), the released outputs in these lines "
    "like the other rows. The PBMT-R output released with DRESS is another one than the row's (it scores 81.11).",
)


def _rated(*scores: float, runs: tuple[str, ...] = ()) -> Row:
    """A row of ratings."""
    return Row(scores, RATED, "raters", runs)


TABLE3 = Table(
    source=f"{_PAPER}, Table 3",
    title="human ratings of simplifications",
    columns=tuple(Column(label) for label in ("fluency", "adequacy", "simplicity", "all")),
    rows={
        "pwkp": {
            "NTS-w2v": _rated(3.54, 3.47, 3.38, 3.46, runs=_NTS_W2V_RUNS),
            "DRESS-LS": _rated(3.68, 3.55, 3.50, 3.58),
            "WEAN": _rated(3.77, 3.66, 3.58, 3.67, runs=_WEAN),
            "reference": _rated(3.76, 3.60, 3.44, 3.60),
        },
        "ew-sew": {
            "PBMT-R": _rated(3.36, 2.92, 3.37, 3.22),
            "SBMT-SARI": _rated(3.41, 3.63, 3.25, 3.43),
            "NTS-w2v": _rated(3.56, 3.52, 3.42, 3.50, runs=_NTS_W2V_RUNS),
            "DRESS-LS": _rated(3.59, 3.43, 3.65, 3.56),
            "WEAN": _rated(3.61, 3.56, 3.65, 3.61, runs=_WEAN),
            "reference": _rated(3.71, 3.64, 3.45, 3.60),
        },
    },
    commands={"pwkp": SHEETS, "ew-sew": SHEETS},
)

_COPYNET = "copied from Gu et al. (ACL 2016)"


def _recipes(unit: str, variable: str) -> tuple[tuple[tuple[str, ...], str], tuple[tuple[str, ...], str]]:
    """Results, and commands of the recipes of CopyNet and of the two RNNs, for characters or words."""
    results = (f"*lcsts_{unit}*",)
    copynet = f"`SYSTEMS={{system}} DATA=path/to/LCSTS bash examples/copynet/lcsts_{unit}.sh`"
    rnn = f"`SYSTEMS={{system}} UNIT={variable} DATA=path/to/LCSTS bash examples/nts/lcsts.sh`"
    return (results, f"{copynet}, scored with `--preset paper:wean-lcsts`"), (results, rnn)


(_CHARACTERS, _RNN_CHARACTERS), (_WORDS, _RNN_WORDS) = _recipes("char", "characters"), _recipes("word", "jieba")

TABLE4 = Table(
    source=f"{_PAPER}, Table 4",
    title="summarisation on LCSTS (W: words, otherwise characters)",
    columns=tuple(Column(f"ROUGE-{kind}", (f"paper:wean-lcsts/ROUGE-{kind}",), decimals=1) for kind in "12L"),
    preset="paper:wean-lcsts",
    rows={
        "lcsts": {
            "RNN-W": Row((17.7, 8.5, 15.8), HU, "copied-rouge", ("enc_dec_lcsts",), "", *_RNN_WORDS),
            "RNN": Row((21.5, 8.9, 18.6), HU, "copied-rouge", ("enc_dec_lcsts",), "", *_RNN_CHARACTERS),
            "RNN-cont-W": Row((26.8, 16.1, 24.1), HU, "copied-rouge", ("rnnsearch_lcsts",), "", *_RNN_WORDS),
            "RNN-cont": Row((29.9, 17.4, 27.2), HU, "copied-rouge", ("rnnsearch_lcsts",), "", *_RNN_CHARACTERS),
            "SRB": Row((33.3, 20.0, 30.1), f"copied from Ma et al., ACL 2017 {UNCHECKED}", "copied-rouge", ("srb",)),
            "CopyNet-W": Row((35.0, 22.3, 32.0), _COPYNET, "copied-rouge", ("copynet_lcsts",), "", *_WORDS),
            "CopyNet": Row((34.4, 21.6, 31.3), _COPYNET, "copied-rouge", ("copynet_lcsts",), "", *_CHARACTERS),
            "RNN-dist": Row(
                (35.2, 22.6, 32.5),
                f"copied from Chen et al., IJCAI 2016 {UNCHECKED}",
                "copied-rouge",
                ("rnn_distract",),
            ),
            "DRGD": Row((37.0, 24.2, 34.2), f"copied from Li et al., EMNLP 2017 {UNCHECKED}", "copied-rouge"),
            "Seq2seq": Row((32.1, 19.9, 29.2), OWN, "wean-rouge", ("seq2seq_lstm_lcsts",)),
            "WEAN": Row((37.8, 25.6, 35.2), OWN, "wean-rouge", ("wean_lstm_lcsts",)),
        }
    },
    experiments={"lcsts": ("*lcsts*",)},
    commands={"lcsts": "`SYSTEMS={system} DATA=path/to/LCSTS bash examples/wean_lstm/lcsts.sh`"},
)

TABLE5 = Table(
    source=f"{_PAPER}, Table 5",
    title="weights of the output layer, in millions",
    columns=(Column("PWKP"), Column("EW-SEW"), Column("LCSTS")),
    rows={
        "output layer": {
            "Seq2seq": Row((12.80, 12.80, 2.05), OWN, "counted", ("linear",)),
            "WEAN": Row((0.13, 0.13, 0.52), OWN, "counted", ("concat",)),
        }
    },
    commands={"output layer": "`python -m wean_fairseq.evaluation.parameters`"},
    note="The WEAN row is that of the score concat; general, the default, has about half as many, dot has none.",
)

TABLES = {
    "wean-table1": TABLE1,
    "wean-table2": TABLE2,
    "wean-table3": TABLE3,
    "wean-table4": TABLE4,
    "wean-table5": TABLE5,
}
