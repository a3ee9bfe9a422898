"""Read the run directories of recipes: scores, outputs, training logs, settings, and the description of the data.

A run directory contains the JSON of ``wean-evaluate --json`` or a ``SYSTEM/train.log``. The texts that belong to a
score are found by the hashes in the JSON, so a report never shows texts that were not scored. If the run directory no
longer exists, scores that ``wean-evaluate record`` has stored can be read.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError

from ..console import without_folders
from ..errors import UserError
from ..evaluation.corpus import is_baseline
from ..evaluation.output_reader import read_generated, read_plain
from ..evaluation.results import read_result
from ..evaluation.score_file import DataFile, Evaluation, evaluations_in, has_scores
from ..evaluation.text_files import read_bytes, read_lines, read_typed_json
from ..evaluation.training_log import TrainingLog, read_log
from ..ranges import Count
from ..storage.files import no_file, read_regular
from ..storage.run_settings import LOCK, is_settings
from .dumps import kind_of_dump

# For each text that was scored: its name in messages, and the effect on a report if it is lost.
_TEXTS = {
    "source": ("source sentences", "no samples are shown"),
    "references": ("references", "the samples are shown without them"),
}
_OF_RECIPE = re.compile(r"test\.(raw\.)?(src|tgt|ref\d*)|valid\.(src|ref\d*)")  # names of these texts in a recipe
_DEPTH = 4  # maximum depth at which run directories are searched
_SEED_FOLDER = re.compile(r"seed[-_]?(\d+)")
_SET = re.compile(r"[^/\x00-\x1f\x7f-\x9f\u2028\u2029]{1,50}")  # names of test sets, which are also names of folders
_TRANSLATED = re.compile(r"Translated [\d,]+ sentences .{0,99} in [\d.]+s \((\d[\d,]{0,30}(?:\.\d+)?) sentences/s")


class Split(Struct):
    """Number of pairs in one split of the data."""

    kept: Count | None = None


class Leak(Struct):
    """Numbers of pairs, source lines and target lines that occur in two splits."""

    pairs: Count = 0
    any: Count = 0


class TextManifest(Struct):
    """Description of a prepared text, from ``manifest.json``.

    Attributes:
        script: name of the script in ``preprocess/``.
        remark: a sentence, if the data only replaces the data of the paper.
        leaks: names of two splits, such as ``train / test``, with the numbers of pairs and lines that occur in both.
    """

    script: str = ""
    remark: str = ""
    splits: dict[str, Split] = {}
    leaks: dict[str, Leak] = {}


@dataclass
class TrainedSystem:
    """One trained system of a run.

    Attributes:
        name: name in the table of scores.
        folder: directory of the system, or None if only its scores are left.
        log: log of its training, which may be empty.
        speed: number of decoded sentences per second for each test set.
        dumps: ``granularity`` or ``provenance`` -> file.
    """

    name: str
    folder: Path | None = None
    log: TrainingLog = field(default_factory=TrainingLog)
    speed: dict[str, float] = field(default_factory=dict)
    dumps: dict[str, Path] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path | None:
        """Path of the checkpoint with which the system decoded, or None if it is missing."""
        file = self.folder / "checkpoint_best.pt" if self.folder else None
        return file if file is not None and file.is_file() else None


@dataclass
class ScoredSet:
    """The scores on one test set, and the scored texts.

    Attributes:
        name: name of the JSON file.
        manifest: description of the data.
        sources: source sentences, or empty if they were not found.
        references: sentences of the first reference file, or empty if they were not found.
        outputs: system -> its best outputs, for systems whose outputs were found.
    """

    name: str
    evaluation: Evaluation
    manifest: TextManifest = field(default_factory=TextManifest)
    sources: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    outputs: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Run:
    """The contents of a run directory.

    Attributes:
        settings: settings of the recipe without the seed.
        seed: seed of the training as text, or empty if it is unknown.
        date: date of the newest score or training log, or empty if there is neither.
        manifest: description of the training data.
        sets: the scores on each test set.
        problems: sentences about files that could not be read.
    """

    path: Path
    settings: dict[str, str] = field(default_factory=dict)
    seed: str = ""
    date: str = ""
    manifest: TextManifest = field(default_factory=TextManifest)
    systems: dict[str, TrainedSystem] = field(default_factory=dict)
    sets: dict[str, ScoredSet] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_own_data(self) -> bool:
        """True if the data is the user's own pairs. There are no published numbers for such data."""
        return self.manifest.script == "own_pairs"

    @property
    def root(self) -> Path:
        """The folder of the whole run, if this is a seed or another part of it, which shares text with other parts."""
        return self.path.parent if (self.path.parent / LOCK).is_file() else self.path

    def may_show(self, file: Path) -> bool:
        """Return True if a file with text exists and no link leads out of the run to it.

        A report must not show files of other folders.
        """
        if not file.is_file():
            return False
        if is_inside(file, self.root):
            return True
        name = os.path.relpath(file, self.path)
        message = f"{name} is behind a link that leads out of the run, so it is not shown."
        if message not in self.problems:
            self.problems.append(message)
        return False


def is_seed_folder(path: Path) -> bool:
    """Return True if the name of a directory says that it belongs to one of several seeds."""
    return _SEED_FOLDER.fullmatch(path.name) is not None


def find_runs(folder: Path) -> list[Path]:
    """Return the run directories in ``folder`` and below it, sorted by name.

    A file is assumed to contain recorded scores.

    Raises:
        UserError: if there is no such directory, or no run in it.
    """
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        missing = no_file(folder) if folder.exists() else f"there is no directory {folder}"
        raise UserError(f"{missing}; give the run directory of a recipe.")
    runs = _find_runs_below(folder, _DEPTH)
    if not runs:
        raise UserError(
            f"{folder} has neither scores (of wean-evaluate --json) nor a SYSTEM/train.log; give the directory that a "
            "recipe wrote."
        )
    return runs


def _find_runs_below(folder: Path, depth: int) -> list[Path]:
    if any(folder.glob("*/train.log")) or any(_is_evaluation(path) for path in folder.glob("*.json")):
        return [folder]
    if depth == 0:
        return []
    below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    return [run for path in below for run in _find_runs_below(path, depth - 1)]


def _is_evaluation(path: Path) -> bool:
    with suppress(UserError):
        return has_scores(read_typed_json(path, dict[str, Any]))
    return False


def read_run(path: Path) -> Run:
    """Read a run directory, and describe its broken files in ``problems``."""
    run = Run(path)
    _read_settings(run)
    run.problems += _training_notes(run, path / "trainings.json")
    run.manifest = _read_manifest(run, path / "text")
    logs, scores = (
        sorted(path.glob("*/train.log")),
        [file for file in sorted(path.glob("*.json")) if run.may_show(file)],
    )
    for log in logs:
        run.systems[log.parent.name] = _read_system(run, log.parent)
    for file in scores:
        _read_scores(run, file)
    written = [file.stat().st_mtime for file in [*logs, *scores] if file.is_file()]
    with suppress(ValueError, OverflowError, OSError):  # no file, or a time before the year 1 or after 9999
        run.date = date.fromtimestamp(max(written)).isoformat()
    # names of the scored systems, in the order of the recipe
    scored = [name for test in run.sets.values() for name in test.evaluation.scores]
    run.systems = {name: run.systems[name] for name in [*scored, *run.systems] if name in run.systems}
    if not run.seed:
        run.seed = next((system.log.seed for system in run.systems.values() if system.log.seed), "")
    return run


def _read_settings(run: Run) -> None:
    """Read the settings of the recipe from the run directory or, if a recipe has several parts, from its parent."""
    for file in (run.path / "settings", run.root / "settings"):
        if is_inside(file, file.parent) and is_settings(file):
            pairs = (line.partition("=") for line in read_lines(file))
            run.settings = {name: value for name, separator, value in pairs if separator}
            break
    named = _SEED_FOLDER.fullmatch(run.path.name)
    seed = run.settings.pop("SEED", "")
    # The settings file of the parent directory may apply to all seeds, so the seed in the name of the directory takes
    # precedence.
    run.seed = named[1] if named else seed


def _training_notes(run: Run, file: Path) -> list[str]:
    """Return one sentence for each training with a note by the recipe, for example that it had not converged."""
    try:
        trainings = read_typed_json(file, dict[str, dict[str, Any]]) if run.may_show(file) else {}
    except UserError:
        return []  # `_read_scores` reports the error
    notes = {name: training.get("note") for name, training in trainings.items()}
    shown = {name: without_folders(note) for name, note in notes.items() if isinstance(note, str)}
    return [f"The training of {name} {note}" for name, note in shown.items()]


def _read_manifest(run: Run, folder: Path) -> TextManifest:
    """Return the manifest of a prepared text. It is empty if there is no manifest or if it cannot be read."""
    path = folder / "manifest.json"
    try:
        return read_typed_json(path, TextManifest, "prepare the text again") if run.may_show(path) else TextManifest()
    except UserError as error:
        run.problems.append(f"The description of the data is left out: {error}")
        return TextManifest()


def _read_system(run: Run, folder: Path) -> TrainedSystem:
    system = TrainedSystem(folder.name, folder)
    with suppress(UserError):
        system.log = read_log(folder / "train.log", folder.name)
    if not system.log.valid:
        run.problems.append(f"{folder.name}: its train.log holds no validation that can be read, so it has no curve.")
    speeds = {file.stem: decoding_speed(file) for file in sorted(folder.glob("*.err"))}
    system.speed = {name: speed for name, speed in speeds.items() if speed is not None}
    for file in filter(run.may_show, sorted(folder.glob("*.jsonl"))):
        with suppress(UserError):
            if kind := kind_of_dump(file):
                system.dumps.setdefault(kind, file)
    return system


def decoding_speed(path: Path) -> float | None:
    """Return the sentences per second that fairseq-generate reported on standard error, or None."""
    with suppress(UserError):
        if speeds := _TRANSLATED.findall(read_bytes(path).decode(errors="replace")):
            return float(speeds[-1].replace(",", ""))
    return None


def _read_scores(run: Run, file: Path) -> None:
    try:
        content = read_typed_json(file, dict[str, Any])
    except UserError:
        run.problems.append(f"{file.name} cannot be read as JSON: score again if it should hold scores.")
        return
    if not has_scores(content):
        return
    try:
        evaluations = evaluations_in(content, file.stem)
    except (ValidationError, UnicodeEncodeError) as error:
        run.problems.append(f"{file.name} is not what wean-evaluate --json writes ({error}): score again.")
        return
    for name, evaluation in evaluations.items():
        if not _SET.fullmatch(name):
            run.problems.append(f"{file.name} has a test set with the name {name[:50]!r}, which is left out.")
            continue
        prepared = run.path / f"text-{name}"
        manifest = _read_manifest(run, prepared) if (prepared / "manifest.json").is_file() else run.manifest
        # two files may have sets of the same name
        is_taken = name in run.sets or (name != file.stem and (run.path / f"{name}.json").is_file())
        test = ScoredSet(f"{file.stem}-{name}" if is_taken else name, evaluation, manifest)
        run.sets[test.name] = test
        if evaluation.outdated_tests:
            run.problems.append(
                f"{file.name} has paired tests of an older definition, which are left out: score again."
            )
        _find_texts(run, test, name)


def _find_texts(run: Run, test: ScoredSet, set_name: str) -> None:
    """Read the texts that were scored, and name the texts that are lost or changed in ``run.problems``."""
    _find_sentences(run, test, set_name)
    _find_outputs(run, test)
    if len({len(lines) for lines in (test.sources, test.references, *test.outputs.values()) if lines}) > 1:
        test.sources, test.references, test.outputs = [], [], {}
        run.problems.append(f"{test.name}: its texts have different numbers of lines, so none is shown: score again.")
    for name in test.evaluation.scores:
        if name not in run.systems and not is_baseline(name):
            run.systems[name] = TrainedSystem(name)


def _find_sentences(run: Run, test: ScoredSet, set_name: str) -> None:
    """Read the source sentences and the first references."""
    files = test.evaluation.data.files
    places = [f"plain-{set_name}", f"text-{set_name}", "text"]
    own = [run.path / place for place in places[:2]]
    has_own_text = any(place.is_dir() or place.is_symlink() for place in own)
    texts: dict[str, list[str]] = {}
    for role, (words, effect) in _TEXTS.items():
        for file in files.get(role, [])[:1]:
            path, is_hidden = _locate(run, file, places)
            if path is not None:
                texts[role] = read_lines(path)
            elif is_hidden:
                run.problems.append(f"{test.name}: the {words} are behind a link that leads out of the run: {effect}.")
            # Scores may be of texts outside of the run directory. Those of a recipe have these names.
            elif has_own_text and _OF_RECIPE.fullmatch(file.name):
                run.problems.append(
                    f"{test.name}: the {words} that were scored are not in the run any more, or have changed since: "
                    f"{effect}; score again."
                )
    test.sources, test.references = texts.get("source", []), texts.get("references", [])


def _find_outputs(run: Run, test: ScoredSet) -> None:
    """Read the outputs of each system."""
    lost: list[str] = []
    hidden: list[str] = []
    for file in test.evaluation.data.files.get("systems", []):
        name = file.system or ""
        path, is_hidden = _locate(run, file, [name])
        if path is None:
            (hidden if is_hidden else lost).append(name)
            continue
        if name not in run.systems:
            twin = run.systems.pop(path.parent.name, None)
            system = run.systems[name] = twin or TrainedSystem(name, path.parent)
            system.name = system.log.name = name  # use the name that the scores contain
        _read_outputs(run, test, name, path)
    if hidden:
        run.problems.append(
            f"{test.name}: the outputs of {', '.join(hidden)} are behind a link that leads out of the run: their "
            "samples are left out."
        )
    if lost:
        run.problems.append(
            f"{test.name}: the outputs that were scored for {', '.join(lost)} are not in the run any more, or have "
            "changed since: their samples are left out; score again."
        )


def _locate(run: Run, file: DataFile, likely: list[str]) -> tuple[Path | None, bool]:
    """Return the file in a run directory that has the name and the hash of ``file``, or None.

    The second value is True if a link leads out of the run to a file of this name in a ``likely`` folder.
    """
    name = Path(file.name).name
    places = sorted(place for place in run.path.iterdir() if place.is_dir())
    is_hidden = False
    for place in sorted(places, key=lambda place: place.name not in likely):
        try:
            if not is_inside(place / name, run.root):
                is_hidden |= place.name in likely and (place / name).is_file()
            elif sha256(read_regular(place / name)).hexdigest() == file.sha256:
                return place / name, False
        except OSError:  # there is no such file, the name is impossible, or the file cannot be read
            continue
    return None, is_hidden


def is_inside(path: Path, folder: Path) -> bool:
    """Return False for a link that leads out of a folder."""
    return path.resolve().is_relative_to(folder.resolve())


def _read_outputs(run: Run, test: ScoredSet, name: str, path: Path) -> None:
    try:
        if path.suffix == ".log":
            output = read_generated(name, path, oov_source=test.sources or None)
        else:
            output = read_plain(name, path)
    except UserError as error:
        run.problems.append(f"{test.name}: the outputs of {name} cannot be shown ({error})")
        return
    test.outputs[name] = output.hypotheses


def read_recorded(path: Path) -> Run:
    """Read a file that ``wean-evaluate record`` has written.

    Raises:
        UserError: if it is not such a file.
    """
    try:
        result = read_result(path)
    except UserError as error:
        raise UserError(f"{error} Or give the run directory of a recipe.") from None
    evaluation = result.evaluation
    run = Run(path.with_suffix(""), seed=str(result.seed))
    facts = {"command": result.command, "commit": result.commit, "hardware": result.hardware}
    run.settings = {name: _in_one_line(fact) for name, fact in facts.items() if fact not in (None, "unknown")}
    references = evaluation.data.files.get("references", [])
    name = Path(references[0].name).stem if references else result.experiment
    run.sets[name] = ScoredSet(name, evaluation)
    run.systems = {system: TrainedSystem(system) for system in evaluation.scores if not is_baseline(system)}
    run.problems.append("Recorded scores: the run itself was not given, so there are no curves, costs and outputs.")
    run.problems += [result.note] if result.note else []
    return run


def _in_one_line(fact: object) -> str:
    return ", ".join(f"{name} {value}" for name, value in fact.items()) if isinstance(fact, dict) else str(fact)
