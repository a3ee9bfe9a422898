"""Test real logs of fairseq-generate, which are scored during generation and read by wean-evaluate afterwards."""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.integration.commands import Result, generate, run
from wean_fairseq.evaluation.metrics import Bleu

QUICK = ("--resamples", 50, "--trials", 50, "--quiet")
NBEST = 3


@pytest.fixture(scope="module", name="nbest")
def decode_nbest(data: Path, checkpoint: Path) -> Result:
    """Return the decoded test split with all entries of the beam. The registered scorer has scored the outputs."""
    return generate(data, checkpoint, "--nbest", NBEST, "--scoring", "wean", "--wean-metrics", "bleu,rouge-l,diversity")


@pytest.fixture(scope="module", name="log")
def write_log(nbest: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the log that ``fairseq-generate ... > generated.log`` would write."""
    path = tmp_path_factory.mktemp("log") / "generated.log"
    path.write_text(nbest.out, encoding="utf-8")
    return path


def tagged(out: str, tag: str) -> dict[int, list[str]]:
    """Return the texts of all lines of one kind for each sentence."""
    found = defaultdict(list)
    for number, text in re.findall(rf"^{tag}-(\d+)\t(?:-?[\d.e-]+\t)?(.*)$", out, flags=re.MULTILINE):
        found[int(number)].append(text)
    return found


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_registered_scorer_in_fairseq_generate(nbest: Result) -> None:
    """Test that the last line has the BLEU of the best outputs against fairseq's references in the T lines."""
    outputs, targets = tagged(nbest.out, "D"), tagged(nbest.out, "T")
    best, references = zip(*((outputs[number][0], targets[number][0]) for number in sorted(targets)), strict=True)
    expected = Bleu(tokenize="none").corpus_score(list(best), [list(references)]).score
    assert re.search(rf"Generate test with beam=3: BLEU = {expected:.2f} \(nrefs:1\|.*tok:none", nbest.out)
    assert re.search(r"; ROUGE-L = \d+\.\d\d \(nrefs:1\|.*; Diver = \d+\.\d\d \(", nbest.out)


def test_nbest_log_gives_exact_match_topics_and_sentence_values(log: Path, text: Path, tmp_path: Path) -> None:
    """Test with the second-best outputs as references.

    Therefore no best output matches its reference, but one of the three best outputs always does.
    """
    outputs, sources = tagged(log.read_text("utf-8"), "D"), lines(text / "test.src")
    second = tmp_path / "second"
    second.write_text("".join(f"{outputs[number][1]}\n" for number in sorted(outputs)), encoding="utf-8")
    metrics = ("exact@1", "exact@10", "topic-coverage", "bleu", "sari", "distinct-1")
    files = ("--generated", f"X={log}", "--ref", second, "--src", text / "test.src", "--json", tmp_path / "x.json")
    result = run("wean-evaluate", *files, "--metric", *metrics, "--sentences", *QUICK)
    content = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    cells = content["systems"]["X"]
    assert (cells["exact@1"]["score"], cells["exact@10"]["score"]) == (0, 100)
    topics = [(set(source.split()), set(outputs[number][0].split())) for number, source in enumerate(sources)]
    found, wanted = sum(len(a & b) for a, b in topics), sum(len(a) for a, _ in topics)
    assert cells["topic-coverage"]["score"] == pytest.approx(100 * found / wanted)
    assert all(len(cell["sentences"]) == len(sources) for cell in cells.values())
    assert content["data"]["files"]["systems"][0]["outputs_per_sentence"] == NBEST
    assert "X has at most 3 output(s) per sentence, but exact@10 looks at 10." in result.out


def test_a_log_without_one_sentence_is_refused(log: Path, text: Path, tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.log"
    kept = [line for line in log.read_text("utf-8").splitlines(keepends=True) if not re.match(r"[STHDP]-7\t", line)]
    spoilt.write_text("".join(kept), encoding="utf-8")
    result = run(
        "wean-evaluate", "--generated", f"X={spoilt}", "--ref", text / "test.tgt", *QUICK, expect_success=False
    )
    assert result.code == 2
    assert "id 7 of 0..59 missing; the run is incomplete, repeat it." in result.err
