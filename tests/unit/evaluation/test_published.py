"""Test that the published numbers are complete and satisfy the relations that their papers state.

Relations between the numbers detect a mistyped digit, which a second copy of the numbers would not detect.
"""

import json
import re
from pathlib import Path

import pytest

from wean_fairseq.evaluation.metrics.registry import MetricSettings
from wean_fairseq.evaluation.presets import columns_for
from wean_fairseq.evaluation.published import PUBLISHED_TABLES, SCORERS, PublishedRow, PublishedTable

ROOT = Path(__file__).parents[3]
ROWS = [
    pytest.param(table, data, name, row, id=f"{key}-{data}-{name}")
    for key, table in PUBLISHED_TABLES.items()
    for data, rows in table.rows.items()
    for name, row in rows.items()
]


def rows(key: str, data: str) -> dict[str, PublishedRow]:
    return PUBLISHED_TABLES[key].rows[data]


@pytest.mark.parametrize(("table", "data", "name", "row"), ROWS)
def test_every_row_is_complete(table: PublishedTable, data: str, name: str, row: PublishedRow) -> None:
    assert len(row.scores) == len(table.columns)
    assert row.scorer in SCORERS and row.origin
    assert (row.scorer == "unread") == all(score is None for score in row.scores)
    if row.runs:
        assert row.command or table.commands[data], "a missing number needs a command that computes the score"
    for script in re.findall(r"bash (examples/\S+?\.sh)", row.command or table.commands.get(data, "")):
        assert (ROOT / script).is_file()


@pytest.mark.parametrize(
    "table", [pytest.param(table, id=key) for key, table in PUBLISHED_TABLES.items() if table.preset]
)
def test_columns_name_scores_of_the_presets(table: PublishedTable) -> None:
    """The first key of a column is a score of the table's preset.

    A group of sentences may follow the score in brackets.
    """
    known = {column.key for column in columns_for([table.preset, "paper:cdnpg-fixed"], [], MetricSettings())}
    for column in table.columns:
        keys = [re.sub(r"\[[\w-]+\]$", "", key) for key in column.keys]
        assert (table.references > 0) == any(row.outputs for part in table.rows.values() for row in part.values())
        assert table.preset == "standard" or keys[0].startswith(f"{table.preset}/")
        assert set(keys) <= known
    assert set(table.experiments) == set(table.rows)


def test_every_scorer_is_used() -> None:
    assert {
        row.scorer for table in PUBLISHED_TABLES.values() for part in table.rows.values() for row in part.values()
    } == set(SCORERS)


def kept_scores(experiment: str, key: str) -> dict[str, str]:
    """Return a score of each system in a kept result, in the precision of papers."""
    content = json.loads((ROOT / "results" / f"{experiment}.json").read_text(encoding="utf-8"))
    cells = content["evaluation"]["systems"]
    return {name: f"{cells[name][key]['score']:.2f}" for name in cells if name != "copy-source"}


@pytest.mark.parametrize(("key", "data"), [("wean-table1", "pwkp"), ("wean-table2", "ew-sew")])
def test_rows_of_released_outputs_are_what_they_score_here(key: str, data: str) -> None:
    """The rows copied from Zhang and Lapata equal the kept evaluations of the outputs, to the last digit."""
    scored = kept_scores(f"published_{data.replace('-', '_')}", f"paper:wean-{data}/BLEU")
    released = {row.outputs: f"{row.scores[0]:.2f}" for row in rows(key, data).values() if row.scorer == "mteval"}
    assert len(released) == (5 if data == "pwkp" else 4)
    assert released.items() <= scored.items()


def test_rows_of_the_nts_paper_are_what_they_score_here() -> None:
    """NTS of WEAN's Table 2 is called NTS-BLEU here: beam 12, chosen by BLEU."""
    scored = kept_scores("published_nts", "paper:nts/BLEU")
    names = {"NTS": "NTS-BLEU", "NTS-w2v": "NTS-w2v", "PBMT-R": "PBSMT-R", "SBMT-SARI": "SBMT"}
    copied = {name: row for name, row in rows("wean-table2", "ew-sew").items() if row.scorer == "nltk-method3"}
    assert {names[name]: f"{row.scores[0]:.2f}" for name, row in copied.items()}.items() <= scored.items()


# Zhang and Lapata (EMNLP 2017), Table 2 (WikiSmall, WikiLarge), columns BLEU and SARI where they are in no table of the
# package; Nisioi et al. (ACL 2017), Table 2.
PRINTED = {
    ("published_pwkp", "paper:dress-pwkp/SARI"): "15.97 30.46 13.61 27.48 27.24",
    ("published_ew_sew", "paper:dress-ew-sew/BLEU"): "81.11 48.97 88.85 77.18 80.12 73.08",
    ("published_ew_sew", "paper:dress-ew-sew/SARI"): "38.56 31.40 35.66 37.08 37.27 39.96",
    ("published_nts", "paper:nts/BLEU"): "84.51 80.69 84.70 87.50 79.38 85.03 67.79 73.62 83.54",
    ("published_nts", "paper:nts/SARI"): "30.65 37.25 30.77 31.11 36.10 30.67 34.07 38.59 34.96",
}


@pytest.mark.parametrize(("experiment", "key"), PRINTED)
def test_printed_values_of_other_papers(experiment: str, key: str) -> None:
    assert list(kept_scores(experiment, key).values()) == PRINTED[experiment, key].split()


def test_reported_rows_are_those_that_are_not_implemented() -> None:
    reported = {
        name
        for part in PUBLISHED_TABLES.values()
        for data in part.rows.values()
        for name, row in data.items()
        if not row.runs
    }
    assert reported == {*("PBMT-R", "Hybrid", "SBMT-SARI"), *("VAE-SVG-eq", "reference")}


def test_the_lcsts_rows_of_wean_are_those_of_copynet() -> None:
    """WEAN's Table 4 copies CopyNet's Table 3, whose RNN rows are also copied."""
    table = rows("wean-table4", "lcsts")
    for unit, ending in (("characters", ""), ("words", "-W")):
        copied = rows("copynet-table3", f"lcsts by {unit}")
        for name, ours in (("RNN", "RNN"), ("RNN context", "RNN-cont"), ("CopyNet", "CopyNet")):
            assert copied[name].scores == table[f"{ours}{ending}"].scores


@pytest.mark.parametrize(("key", "parts"), [("wean-table3", 3), ("mta-human", 4)])
def test_mean_ratings_are_the_means_of_their_parts(key: str, parts: int) -> None:
    for data in PUBLISHED_TABLES[key].rows.values():
        for row in data.values():
            scores = [score for score in row.scores if score is not None]
            assert scores[parts] == pytest.approx(sum(scores[:parts]) / parts, abs=0.0101)


@pytest.mark.parametrize(("data", "low", "high"), [("quora", 1.25, 2.65), ("twitter_url", 1.55, 3.45)])
def test_ibleu_of_cdnpg_implies_the_self_bleu_of_its_defect(data: str, low: float, high: float) -> None:
    """iBLEU = 0.8 BLEU-4 - 0.2 self-BLEU implies a self-BLEU of 1.3 to 2.6 and 1.6 to 3.4 (design reference, 3.9)."""
    implied = []
    for row in rows("cdnpg-table2", data).values():
        ibleu, bleu4 = row.scores[0], row.scores[2]
        if ibleu is not None and bleu4 is not None:
            implied.append((0.8 * bleu4 - ibleu) / 0.2)
    assert len(implied) == 9
    assert low <= min(implied) and max(implied) <= high


def test_ibleu_of_dnpg_implies_a_plausible_self_bleu() -> None:
    """iBLEU = 0.9 BLEU - 0.1 self-BLEU implies 31 to 45 (design reference, 3.9), and 28.7 for VAE-SVG-eq."""
    scores = [row.scores for row in rows("dnpg-table4", "quora").values()]
    implied = [(0.9 * bleu - ibleu) / 0.1 for bleu, ibleu, *_ in scores if bleu is not None and ibleu is not None]
    assert len(implied) == 6
    assert min(implied) > 28.6 and max(implied) < 45.2


def test_shares_of_raters_add_up() -> None:
    for row in rows("cdnpg-table4", "human comparison").values():
        for place in (0, 4):
            assert sum(row.scores[place : place + 3]) == pytest.approx(100, abs=0.15)  # type: ignore[arg-type]


def test_weights_of_the_output_layer() -> None:
    """The baseline has V d weights, and the score concat has 2 d^2 + d weights, in millions."""
    for name, count in (("Seq2seq", lambda v, d: v * d), ("WEAN", lambda v, d: 2 * d * d + d)):
        expected = tuple(round(count(v, d) / 1e6, 2) for v, d in ((50_000, 256), (50_000, 256), (4_000, 512)))
        assert rows("wean-table5", "output layer")[name].scores == pytest.approx(expected, abs=0.0051)


def test_headline_numbers() -> None:
    """The headline numbers come from the papers. There are none from PC-SAN, because its tables were not read."""
    assert rows("wean-table1", "pwkp")["WEAN"].scores == (54.54,)
    assert rows("wean-table2", "ew-sew")["WEAN"].scores == (94.45,)
    assert rows("wean-table4", "lcsts")["WEAN"].scores == (37.8, 25.6, 35.2)
    assert rows("copynet-table1", "synthetic")["CopyNet"].scores == (97.3, 93.7, 98.3, 68.2, 77.5)
    assert rows("copynet-table4", "DS-II")["CopyNet"].scores == (50.5, 64.8)
    assert rows("cdnpg-table2", "quora")["C-DNPG (R)"].scores == (26.94, 47.58, 34.05, 46.17, 44.75)
    assert rows("pcsan-automatic", "essay")["PC-SAN"].scores == (None, None)
    assert rows("mta-automatic", "zhihu")["MTA-LSTM"].scores == (1.73,)
