"""Re-rank two searches of a real system on the validation set. Apply the chosen search to the test set."""

import json
import re
from pathlib import Path

import pytest

from tests.integration.commands import Result, generate, run

BEAMS = (2, 4)
RANKS = (1, 2)


def texts(log: str) -> dict[int, list[str]]:
    """Return the n-best lists in a log by sentence."""
    found: dict[int, list[str]] = {}
    for number, text in re.findall(r"^D-(\d+)\t\S+\t(.*)$", log, flags=re.MULTILINE):
        found.setdefault(int(number), []).append(text)
    return found


@pytest.fixture(scope="module", name="logs")
def search(data: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decode the validation set and the test set with two beams, with n-best lists of two entries."""
    folder = tmp_path_factory.mktemp("logs")
    for split in ("valid", "test"):
        for beam in BEAMS:
            found: Result = generate(data, checkpoint, "--gen-subset", split, "--beam", beam, "--nbest", max(RANKS))
            (folder / f"{split}.{beam}").write_text(found.out, encoding="utf-8")
    return folder


def test_the_choice_on_the_validation_set_is_taken_on_the_test_set(logs: Path, text: Path, tmp_path: Path) -> None:
    """Compare with the scores that wean-evaluate gives to the four candidates as plain files."""
    references = ("--ref", text / "valid.tgt", "--src", text / "valid.src")
    files = [f"{beam}={logs / f'valid.{beam}'}" for beam in BEAMS]
    test = [f"{beam}={logs / f'test.{beam}'}" for beam in BEAMS]
    out = ("--output", tmp_path / "out", "--json", tmp_path / "choice.json")
    result = run("wean-evaluate", "rerank", "--tune", *files, "--test", *test, *references, *out)
    content = json.loads((tmp_path / "choice.json").read_text(encoding="utf-8"))

    plain = []
    for beam in BEAMS:
        nbest = texts((logs / f"valid.{beam}").read_text("utf-8"))
        for rank in RANKS:
            plain.append(f"{beam}-{rank}={tmp_path / f'{beam}-{rank}'}")
            lines = "".join(f"{nbest[number][rank - 1]}\n" for number in sorted(nbest))
            (tmp_path / f"{beam}-{rank}").write_text(lines, encoding="utf-8")
    scoring = ("--hyp", *plain, *references, "--metric", "bleu", "--resamples", 0, "--quiet")
    run("wean-evaluate", *scoring, "--json", tmp_path / "scores.json")
    systems = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["systems"]

    scores = {f"{item['search']}-{item['rank']}": item["score"] for item in content["candidates"]}
    assert scores == pytest.approx({name: systems[name]["bleu"]["score"] for name in scores})
    beam, rank = content["chosen"]["search"], content["chosen"]["rank"]
    assert scores[f"{beam}-{rank}"] == max(scores.values()) > min(scores.values())
    chosen = texts((logs / f"test.{beam}").read_text("utf-8"))
    expected = [chosen[number][rank - 1] for number in sorted(chosen)]
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == expected
    assert f"60 lines, hypothesis {rank} of " in result.out
