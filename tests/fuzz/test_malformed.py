"""Check that commands reject malformed input and values out of range.

Each ends with one sentence, never with a traceback, silent success or a hang.
"""

import io
import json
import resource
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.fuzz.text import attempt, budgets, call
from tests.fuzz.wrong_types import places_of, spoil
from tests.integration.commands import ADAM, TASK, TINY, Result, plugged, preprocess, random_sentences, write_pairs
from tests.model_contract import make_dictionary
from tests.reliability import Reliability
from tests.unit.reporting.run_folder import make_run
from wean_fairseq.data.word_vectors import load_word_vectors
from wean_fairseq.errors import UserError
from wean_fairseq.host import settings
from wean_fairseq.reporting.report_cli import main as report
from wean_fairseq.storage.cli import main_checksum
from wean_fairseq.tasks.paraphrase import ParaphraseConfig, ParaphraseTask

MODEL = ["--arch", "wean_lstm", "--criterion", "query_embedding", *TINY, *TASK, *ADAM]
RATE = ["--lr", 0.01, "--max-update", 3]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("malformed")
    for split, size in (("train", 60), ("valid", 8), ("test", 20)):
        write_pairs(folder / split, random_sentences(size, size))
    preprocess(folder, folder / "bin")
    return folder / "bin"


@pytest.fixture(scope="module")
def trained(data: Path) -> Path:
    """Train for three updates, and return the folder of the training."""
    folder = data.parent / "trained"
    result = plugged("train", data, *MODEL, *RATE, "--save-dir", folder)
    assert result.code == 0, result.describe()
    return folder


def assert_refused(result: Result, *said: str) -> None:
    lines = result.err.splitlines()
    sentences = [
        line
        for line in lines
        if line.startswith(("wean_fairseq: error: ", f"{Path(result.arguments[0]).name}: error: "))
    ]
    assert result.code in (1, 2) and len(sentences) == 1, result.describe()
    assert "Traceback" not in result.err + result.out, result.describe()
    assert all(words in sentences[0] for words in said), sentences[0]


# --- options --------------------------------------------------------------------------------------------------------

OF_TRAINING = """
--lr -1 | --lr nan | --lr 0.1,-2 | --batch-size 0 | --batch-size -3 | --max-tokens 0 | --max-tokens -1 | --update-freq 0
--update-freq -1 | --max-epoch -1 | --max-update -1 | --num-workers -1 | --dropout 2 | --dropout -1 | --seed -1
--log-interval 0 | --save-interval 0 | --save-interval-updates -2 | --validate-interval 0 | --adam-betas x
--adam-betas (2,3) | --adam-betas 0.9 | --max-source-positions 0 | --embed-dim 0 | --embed-dim -4 | --hidden-size 0
--hidden-size -4 | --encoder-layers -1 | --loss-limit -1 | --weight-decay -1 | --weight-decay nan | --batch-size-valid 0
--batch-size-valid -1 | --max-tokens-valid -1 | --max-tokens-valid 0 | --stop-time-hours -1 | --max-pair-length -1
--length-policy truncate | --length-policy nope | --oov-slots -2 | --distributed-world-size 0 | --train-subset nope
--valid-subset nope | --best-checkpoint-metric nope --max-update 1 | --lr-scheduler pass_through | --optimizer nope
--arch nope | --criterion nope | --data-buffer-size -1 | --restore-file nope.pt | --finetune-from-model nope.pt
--query-score nope | --lr-scheduler inverse_sqrt --warmup-updates -5 | --skip-what 1 | --lr 0 | --lr 0.1,0 | --lr inf
--lr-scheduler polynomial_decay --total-num-update 0 | --lr-scheduler polynomial_decay | --clip-norm -1 | --dropout 1
--criterion model_loss --label-smoothing 2 | --criterion label_smoothed_cross_entropy --label-smoothing 2
--criterion label_smoothed_cross_entropy --label-smoothing nan | --num-shards 2 | --shard-id 1 | --num-workers 100000
--adam-eps -1 | --stop-min-lr nan | --lr-scheduler inverse_sqrt --warmup-updates 0 | --lr-scheduler tri_stage
--lr-scheduler polynomial_decay --power nan --total-num-update 9 | --lr-scheduler reduce_lr_on_plateau --lr-shrink 5
--store-ema --ema-decay 5 | --eval-bleu --eval-bleu-args nojson | --optimizer sgd --momentum nan
--tensorboard-logdir /dev/null | --max-source-positions -3 | --required-seq-len-multiple 0 | --optimizer composite
--write-checkpoints-asynchronously | --use-plasma-view | --task audio_pretraining | --task sentence_prediction
"""
OF_GENERATION = """
--beam 0 | --beam -1 | --nbest 0 | --batch-size 0 | --max-tokens 0 | --max-tokens -1 | --max-len-a -5 | --max-len-b -1
--min-len 99 | --lenpen nan | --lenpen inf | --unkpen nan | --temperature 0 | --temperature -1 | --sampling
--no-repeat-ngram-size -2 | --prefix-size -2 | --gen-subset nope | --lm-path nope.pt | --constraints | --print-step
--replace-unk nope | --post-process nope | --scoring nope | --diverse-beam-groups 2
--num-workers -1 | --path nope.pt | --search-preset nope
--search-preset wean --lenpen 2 | --search-preset copynet --sampling | --bf16-scores --sampling --nbest 3
--left-pad-source nope | --max-len-b 99999999999 | --max-len-a 1e9 | --sampling --sampling-topk 100000 --nbest 3
--model-overrides nope() | --model-overrides { | --results-path /dev/null
--skip-invalid-size-inputs-valid-test --max-source-positions 1
"""


def choices(options: str) -> list[Any]:
    found = [one.strip() for line in options.strip().splitlines() for one in line.split("|")]
    return [pytest.param(one, marks=[] if place % 20 == 0 else [pytest.mark.slow]) for place, one in enumerate(found)]


@pytest.mark.parametrize("options", choices(OF_TRAINING))
def test_options_that_no_training_can_have(options: str, data: Path, tmp_path: Path, reliability: Reliability) -> None:
    assert_refused(plugged("train", data, *MODEL, *RATE, "--save-dir", tmp_path / "out", *options.split()))
    assert not list(tmp_path.glob("out/checkpoint*"))
    reliability.count("options out of range")


@pytest.mark.parametrize("options", choices(OF_GENERATION))
def test_options_that_nothing_can_be_searched_with(
    options: str, data: Path, trained: Path, reliability: Reliability
) -> None:
    fixed = ["--path", trained / "checkpoint_last.pt", "--cpu", "--batch-size", 8, "--beam", 3, *TASK]
    assert_refused(plugged("generate", data, *fixed, "--max-len-b", 9, *options.split()))
    reliability.count("options out of range")


OTHER_SCHEDULES = ["polynomial_decay --total-num-update 50", "inverse_sqrt --warmup-updates 5", "reduce_lr_on_plateau"]
OTHER_SCHEDULES += ["cosine --warmup-updates 2", "triangular --max-lr 0.1", "step"]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", OTHER_SCHEDULES)
def test_another_schedule_on_resume(
    schedule: str, data: Path, trained: Path, tmp_path: Path, reliability: Reliability
) -> None:
    folder = shutil.copytree(trained, tmp_path / "out")
    line = [data, *MODEL, "--lr", 0.01, "--max-update", 4, "--save-dir", folder, "--lr-scheduler", *schedule.split()]
    assert_refused(plugged("train", *line), "trained with --lr-scheduler fixed", "--reset-lr-scheduler")
    result = plugged("train", *line, "--reset-lr-scheduler")
    assert result.code == 0, result.describe()
    reliability.count("options out of range")


@pytest.mark.parametrize("beam", [2, 4, 6])
def test_diverse_beams(beam: int, data: Path, trained: Path) -> None:
    """Test diverse beam search in small batches, where fairseq fails if a sentence id exceeds the batch size.

    One batch with all 20 sentences gives the expected results, because fairseq does not fail there.
    """
    fixed = [data, "--path", trained / "checkpoint_last.pt", "--cpu", "--beam", beam, "--nbest", beam, *TASK]
    fixed += ["--max-len-b", 6, "--diverse-beam-groups", 2]
    small, whole = (plugged("generate", *fixed, "--batch-size", size) for size in (3, 20))
    assert (small.code, len(small.hypotheses)) == (0, 20), small.describe()
    assert [found[::2] for found in small.scored_hypotheses] == [found[::2] for found in whole.scored_hypotheses]
    # The scores differ by rounding because the batches are different.
    expected = [score for _, score, _ in whole.scored_hypotheses]
    assert [score for _, score, _ in small.scored_hypotheses] == pytest.approx(expected, abs=1e-4)


def limit_memory(extra: int) -> None:
    """Limit this process, which has already imported everything, to ``extra`` further megabytes."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra * 2**20,) * 2)


MEGABYTES = [pytest.param(size, marks=pytest.mark.slow) for size in (20, 60, 120, 250)]


@pytest.mark.parametrize("extra", [40, *MEGABYTES])
def test_an_address_space_that_is_too_small(extra: int, data: Path, tmp_path: Path, reliability: Reliability) -> None:
    """Test with a model of at least 200 MB, so that training reaches each memory limit at a different place."""

    large = ["--hidden-size", 3000, "--embed-dim", 500]
    line = [data, *MODEL, *RATE, *large, "--save-dir", tmp_path / "out", "--num-workers", 0]
    assert_refused(plugged("train", *line, prepare=partial(limit_memory, extra)), "memory")
    reliability.count("options out of range")


# --- dictionaries ---------------------------------------------------------------------------------------------------

GOOD = [f"w{number} {30 - number}" for number in range(20)]
BAD_LINES = {
    "twice": b"w3 5", "no count": b"word", "float": b"word 1.5", "exponent": b"word 1e3", "words": b"a word",
    "empty": b"", "spaces": b"   ", "no word": b" 5", "bos": b"<s> 1", "eos": b"</s> 1", "pad": b"<pad> 1",
    "unk": b"<unk> 1", "latin-1": b"caf\xe9 3", "cut utf-8": b"\xe4\xb8 3", "nan": b"word nan", "inf": b"word inf",
    "hex": b"word 0x5", "tab": b"word\t5", "flag": b"word 5 #fairseq:nope", "flag alone": b"#fairseq:overwrite",
    "digits": b"word " + b"9" * 5000, "surrogate": b"\xed\xa0\x80 4", "nul": b"word \x00", "long": b"x" * 100_000,
}  # fmt: skip
PLACES = {"first": 0, "middle": 10, "last": 20}


@pytest.mark.parametrize("language", ["src", "tgt"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("wrong", [pytest.param(name, marks=pytest.mark.slow) for name in BAD_LINES])
def test_malformed_dictionaries(
    wrong: str, place: str, language: str, tmp_path: Path, reliability: Reliability
) -> None:
    lines = [line.encode() for line in GOOD]
    for name in ("src", "tgt"):
        (tmp_path / f"dict.{name}.txt").write_bytes(b"\n".join(lines) + b"\n")
    spoilt = [*lines[: PLACES[place]], BAD_LINES[wrong], *lines[PLACES[place] :]]
    (tmp_path / f"dict.{language}.txt").write_bytes(b"\n".join(spoilt) + b"\n")
    with pytest.raises(UserError, match=f"dict.{language}.txt is not a dictionary") as caught:
        ParaphraseTask.setup_task(ParaphraseConfig(data=str(tmp_path), source_lang="src", target_lang="tgt"))
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)
    reliability.count("malformed files")


@pytest.mark.parametrize("wrong", ["twice", "float", "latin-1"])
def test_malformed_dictionaries_are_one_sentence(wrong: str, data: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(data, tmp_path / "bin", ignore=shutil.ignore_patterns("checksums.sha256"))
    for name in ("src", "tgt"):
        (folder / f"dict.{name}.txt").write_bytes(b"w3 1\n" + BAD_LINES[wrong] + b"\n")
    assert_refused(plugged("train", folder, *MODEL, *RATE, "--save-dir", tmp_path / "out"), "is not a dictionary")


# --- word vectors ---------------------------------------------------------------------------------------------------

HEADERS = ["9" * 5000 + " 3", "2 " + "9" * 5000, "2 0", "0 0", "-2 3", "2 -3", "2 3 3", "2.0 3", "٢ ٣", "2 4", "", " "]
HEADERS += ["2 3\x00", "\ufeff2 3", "nan nan", "1e9 3", "x" * 100_000, "2 999999999", "[2, 3]", "{}"]


@pytest.mark.parametrize("header", [pytest.param(name, marks=pytest.mark.slow, id=name[:12]) for name in HEADERS])
@pytest.mark.parametrize("body", ["", "w1 1 2 3\nw2 1 2 3\n", "w1 1 2 inf\n", "w1 1 2\n"])
def test_headers_of_vectors(header: str, body: str, tmp_path: Path, reliability: Reliability) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"{header}\n{body}", encoding="utf-8")
    try:
        matrix, _ = load_word_vectors(str(path), make_dictionary(), 3)
    except UserError as error:
        said = str(error)
    else:
        said = ""
        assert np.isfinite(matrix.numpy()).all() and matrix.shape[1] == 3
    assert "\n" not in said and len(said) < 1000
    reliability.count("malformed files")


# --- JSON in reports ------------------------------------------------------------------------------------------------

ODD: list[Any] = [None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf"), "", "x" * 3000, "\ud800", "\0", [], {}]
ODD += [[[]], {"": {}}, {"score": None}, {"score": "x"}, [None], "9" * 5000, {"a": [1, {"b": None}]}]
WHOLE = [b"", b"null", b"[]", b"{}", b"1", b'"x"', b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"\xff\xfe", b"NaN"]
WHOLE += [b"{", b'{"a": 1', b'{"systems": {}}', b"\x00" * 100, b"{}" * 100]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("recorded") / "run")


def assert_reported(folder: Path) -> None:
    status, out, err = call(report, folder, "--output", folder.parent / "report", "--no-checkpoints", "--samples", 2)
    sentences = [line for line in err.splitlines() if line.startswith("wean-report: error: ")]
    assert (status, len(sentences)) in ((0, 0), (2, 1)), err
    assert "Traceback" not in err + out


@budgets(2, 60)
def test_reports_of_absurd_values(examples: int, recorded: Path, tmp_path: Path, reliability: Reliability) -> None:
    good = {name: json.loads((recorded / name).read_text()) for name in ("test.json", "text/manifest.json")}
    cases = [(name, place) for name, content in good.items() for place in places_of(content)]

    def check(case: tuple[str, tuple[Any, ...]], value: Any) -> None:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(recorded, folder, symlinks=True)
        (folder / case[0]).write_text(json.dumps(spoil(good[case[0]], case[1], value)))
        assert_reported(folder)

    given = {"case": st.sampled_from(cases), "value": st.sampled_from(ODD)}
    attempt(examples, reliability, check, kind="malformed files", **given)


@pytest.mark.parametrize("name", ["test.json", "text/manifest.json", "settings", "transformer/train.log"])
@pytest.mark.parametrize("content", [pytest.param(one, marks=pytest.mark.slow, id=repr(one[:9])) for one in WHOLE])
def test_reports_of_other_content(
    name: str, content: bytes, recorded: Path, tmp_path: Path, reliability: Reliability
) -> None:
    folder = shutil.copytree(recorded, tmp_path / "run", symlinks=True)
    (folder / name).write_bytes(content)
    assert_reported(folder)
    reliability.count("malformed files")


# --- other alphabets than the terminal's ----------------------------------------------------------------------------


def speak(encoding: str) -> None:
    """Give this process a standard output with ``encoding``, as in a locale that uses this encoding."""
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding, line_buffering=True)
    settings.make_output_printable()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "koi8-r"])
def test_output_where_the_locale_lacks_the_characters(
    encoding: str, data: Path, tmp_path: Path, reliability: Reliability
) -> None:
    """Test that output to a pipe is UTF-8, because all programs that read it expect UTF-8."""
    for split, size in (("train", 30), ("valid", 4), ("test", 4)):
        write_pairs(tmp_path / split, random_sentences(size, size))
        for side in ("src", "tgt"):
            path = tmp_path / f"{split}.{side}"
            path.write_text(path.read_text().replace("kept1", "中文"), encoding="utf-8")
    preprocess(tmp_path, tmp_path / "词")
    folder = tmp_path / "出"

    result = plugged("train", tmp_path / "词", *MODEL, *RATE, "--save-dir", folder, prepare=partial(speak, encoding))
    assert result.code == 0, result.describe()
    fixed = ["--path", folder / "checkpoint_last.pt", "--cpu", *TASK, "--batch-size", 4]
    result = plugged("generate", tmp_path / "词", *fixed, prepare=partial(speak, encoding))
    assert (result.code, "中文" in result.out, len(result.hypotheses)) == (0, True, 4), result.describe()
    reliability.count("malformed files")


def test_checksums_of_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (tmp_path / "link", tmp_path / "nope"):
        status, _, err = call(main_checksum, path)
        assert (status, err.count("\n")) == (2, 1), err
    assert not list(tmp_path.glob("*.sha256"))
