"""Run one training on sentence pairs: prepare the text, train, decode and score the test set, and export the model.

The work folder contains the files of all steps, in the layout of the recipes. A step is skipped if its result is
complete. Therefore an interrupted run continues when it is started again.
"""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from msgspec import structs

from ..checkpoints.export import export, is_export, read_export
from ..console import print_message
from ..errors import UserError
from ..evaluation.cli import main as evaluate
from ..generation.cli import main as generate
from ..reporting.report_cli import main as write_report
from ..storage.data_files import check_prepared
from ..storage.files import no_file, read_regular, remove_partial, sha256_of, write_text
from ..storage.manifest import NAME as CHECKSUMS
from ..storage.run_settings import LOCK, is_settings
from ..storage.saved_tables import is_saved_table, table_files
from ..storage.search import check_stored, options_line, read_search, write_search
from ..tasks.searching import check_search
from ..text import read_text_settings
from . import progress, state, trainings
from .base import count_pairs, read_base
from .defaults import ARCHS_OF, Options, dictionary_for, most_topics, options_for, sizes_for
from .settings import FILE, PROGRAM, Settings, write_toml
from .tables import SAVED_TABLES

_PACKAGE = Path(__file__).resolve().parents[1]
_STOPPED = (130, 143, -2, -15)  # exit statuses of commands that SIGINT or SIGTERM has ended
_OF_TEXT = ("columns", "header", "valid", "test", "split_seed", "unit", "case", "bpe", "language", "limit")
_ERROR = re.compile(r"error: (.+)")
_EPOCHS = re.compile("[0-9]{1,9}")


def say(text: str) -> None:
    """Print a line about the progress of the work."""
    here = f"{Path.cwd()}/"
    print_message(PROGRAM, text.replace(f"{here}-", "./-").replace(here, ""))


def preparation_script() -> Path:
    """Return the script that prepares pairs.

    It is inside the installed package, or next to the package in a checkout.
    """
    places = [folder / "preprocess" / "own_pairs.py" for folder in (_PACKAGE, _PACKAGE.parent)]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise UserError(f"{places[0]} is missing: install wean_fairseq again.")
    return found


class TrainingRun:
    """A training run and its work folder.

    Args:
        settings: settings of the training.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.work = settings.work_folder
        self.text, self.data = self.work / "text", self.work / "bin"
        path = f"{_PACKAGE.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
        self.base = read_base(settings) if settings.from_ else None
        self.environment = {**os.environ, "PYTHONPATH": path}

    @property
    def arch(self) -> str:
        """The arch, which is known after ``prepare``."""
        return self.base.arch if self.base else self.settings.arch or ""

    @property
    def system(self) -> Path:
        """Folder of the training."""
        return self.work / self.arch

    @property
    def options(self) -> Options:
        """Options of fairseq and wean-evaluate for the arch."""
        width = self.base.width if self.base else self.settings.width
        return options_for(self.arch, str(width), f"{self.settings.rate:g}", self.text, self.settings.patience)

    @property
    def task(self) -> str:
        """The task of fairseq."""
        return "topic_essay" if self.settings.task == "essay" else "paraphrase"

    @property
    def bert(self) -> list[str]:
        """The option that names the model's BERT, which a checkpoint records."""
        return ["--bert", self.settings.bert] if self.settings.bert else []

    @property
    def vectors(self) -> list[str]:
        """The option that names the word vectors with which the embeddings start."""
        return ["--embedding-file", self.settings.embedding_file] if self.settings.embedding_file else []

    @property
    def search(self) -> list[str]:
        """Search options of the original model or, without one, of the arch, followed by the user's options."""
        stored = options_line(self.base.search) if self.base else []
        return [*(stored or self.options.search), *shlex.split(self.settings.search)]

    @property
    def processes(self) -> int:
        """The number of processes of the training."""
        return self.settings.processes or (1 if self.on_cpu else torch.cuda.device_count())

    @property
    def on_cpu(self) -> list[str]:
        """The option for a training without a GPU."""
        has_gpu = torch.cuda.is_available()
        if self.settings.device == "cuda" and not has_gpu:
            raise UserError("there is no GPU that PyTorch can use: leave --device out, or give cpu.")
        return [] if has_gpu and self.settings.device != "cpu" else ["--cpu"]

    # --- checks before anything is written

    def check(self) -> None:
        """Refuse a missing device or input, and folders that do not belong to this run. Raise ``UserError``."""
        self.on_cpu  # noqa: B018 - it looks for the GPU
        for path in self.inputs:
            if not path.is_file() and not is_saved_table(path):
                raise UserError(f"{no_file(path)}: give your pairs as a table, or as two text files.")
        self.check_folders()

    def check_folders(self) -> None:
        """Refuse folders that do not belong to this run, and remove files that a killed run has begun.

        Raise ``UserError``.
        """
        folder, work = self.settings.folder, self.work
        # All this is checked before a training that may take hours. Files that this run did not write are never
        # replaced.
        for name, place in (("output", folder), ("work", work)):
            if place.exists() and not place.is_dir():
                raise UserError(f"{name} {place} is a file: give a folder.")
            if any(path.resolve() == place.resolve() for path in self.inputs):
                raise UserError(f"{name} {place} is an input: give another folder.")
        if work.resolve().is_relative_to(folder.resolve()):
            raise UserError(
                f"work {work} is in the output {folder}, which is replaced as a whole: give another folder."
            )
        if folder.resolve().parent == work.resolve() and folder.name in ("text", "bin", *ARCHS_OF[self.settings.task]):
            raise UserError(f"{folder} has the name of another folder of {work}: give another --output.")
        # Every run writes its settings first. Therefore a folder with files but without settings does not belong to a
        # run.
        remove_partial(work)
        others = {path.name for path in work.iterdir()} - {SAVED_TABLES, LOCK} if work.is_dir() else set()
        if others and not is_settings(work / "settings"):
            raise UserError(f"{work} has files that are not of {PROGRAM}: give another --work, or move them.")
        state.check_entries(work)
        # The last run may have been killed after it had written the folder.
        unfinished = f"\n{_unfinished(folder, _read_mark(folder / FILE))}\n"
        is_ours = _read_mark(self.work / "published").endswith(unfinished)
        is_ours = is_ours or self._published == _checksums_of(folder) != ""
        if folder.is_dir() and any(folder.iterdir()) and not is_ours:
            raise UserError(f"{folder} exists, and was not written by this run: give another --output, or move it.")
        for place in (folder.absolute(), work.absolute()):
            # The folders may not exist yet, so the nearest existing folder is checked.
            parent = next(path for path in (place, *place.parents) if path.exists())
            if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
                raise UserError(f"{place} cannot be written ({parent} is not a folder that you may write to).")

    @property
    def inputs(self) -> list[Path]:
        """The user's input files."""
        files = [Path(file) for name in ("data", "valid", "test") for file in self.settings.files(name)]
        return files + (self.base.old_test if self.base else [])

    @property
    def _published(self) -> str:
        """The checksum of the model folder that this run has written. It is empty if there is none."""
        return _read_mark(self.work / "published").partition("\n")[0]

    # --- steps

    def prepare(self) -> None:
        """Write the prepared text and fairseq's binary data, and choose the model sizes from the number of pairs."""
        lines = [
            f"{name}={' '.join(self.settings.files(name)) or value}"
            for name in _OF_TEXT
            if (value := getattr(self.settings, name))
        ]
        lines += ["task=essay"] * (self.settings.task == "essay")
        inputs = [file for path in self.inputs for file in table_files(path)]
        inputs += [self.base.weights] if self.base else []
        changes = state.record_settings(self.work / "settings", lines + state.input_lines(inputs))
        if changes:
            raise UserError(
                f"{self.work} was made with other settings ({changes}): give another --work or --output, or delete it."
            )
        if self.base and not self.base.old_test:
            say(f"the test set of {self.settings.from_} is not next to it, and is not scored: --old-test names it")
        if (self.data / "manifest.json").is_file():
            check_prepared(self.text)
            say("text: done before")
        else:
            say(f"text: writing {self.text}")
            try:
                self._run_preparation()
            except UserError:
                # no step has written a file yet
                if {path.name for path in self.work.iterdir()} == {"settings", LOCK}:
                    for name in ("settings", LOCK):
                        (self.work / name).unlink()
                    if not self.work.is_symlink():
                        self.work.rmdir()
                raise
        pairs = count_pairs(self.text, f"delete {self.work} and start again")
        if self.base and (topics := most_topics(self.text)) > self.base.max_topics > 0:
            raise UserError(
                f"{self.settings.from_} reads at most {self.base.max_topics} topics, but a row of the data has "
                f"{topics}: leave out such rows."
            )
        self.settings = self.settings.with_sizes(sizes_for(pairs, self.settings.task))
        search = read_search(self.search)[0]
        check_search(search)
        check_stored(search)  # the trained model will be exported with it

    def _run_preparation(self) -> None:
        given = self.settings
        words, least = dictionary_for(given.bpe or 0)
        line = [sys.executable, str(preparation_script()), "--output", str(self.text), "--binarise", str(self.data)]
        line += ["--raw-data", "--drop-leaks", "pairs", "--seed", str(given.split_seed), "--limit", str(given.limit)]
        if self.base:
            line += ["--prepared", str(self.base.text), "--dictionaries", *map(str, self.base.dictionaries)]
        else:
            line += ["--words", str(words), "--threshold", str(least), "--unit", str(given.unit), f"--bpe={given.bpe}"]
            line += [] if given.case == "keep" else [f"--{given.case}"]
            line += ["--topics"] if given.task == "essay" else []
        for name in ("data", "valid", "test"):
            value = getattr(given, name)
            line += [f"--{name}", *(given.files(name) or [str(value)])] if value is not None else []
        line += [
            f"--{name}={getattr(given, name)}" for name in ("columns", "header", "language") if getattr(given, name)
        ]
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode in _STOPPED:
            raise KeyboardInterrupt
        if done.returncode:
            raise UserError(_sentence(done.stderr, "preparing the text failed: "))
        for text in done.stdout.splitlines():
            say(text.removeprefix("own_pairs: "))

    def train(self) -> None:
        """Train, or continue a training."""
        given = self.settings
        options = ["--task", self.task, "--arch", self.arch, "--criterion", self.options.criterion]
        options += ["--seed", str(given.seed), *self.options.optimisation]
        options += self.base.options if self.base else [*self.options.sizes, *self.bert, *self.vectors]
        changes = state.record_settings(self.system / "command", state.option_lines(options))
        if changes:
            raise UserError(f"{self.system} was begun with other settings ({changes}): give another --work.")
        mark = self.system / ".trained"
        trained = _read_mark(mark).strip()
        if _EPOCHS.fullmatch(trained) and int(trained) >= (given.epochs or 0):
            fewer = f" with --epochs {trained}, and --epochs {given.epochs} changes nothing"
            say(f"training {self.arch}: done before{fewer * (int(trained) > (given.epochs or 0))}")
            self.settings = structs.replace(given, epochs=int(trained))  # the settings of the model
            return
        say(f"training {self.arch} (stop it and start again as you like; log: {self.system / 'train.log'})")
        line = [sys.executable, "-P", "-m", "fairseq_cli.train", str(self.data), "--user-dir", str(_PACKAGE), *options]
        line += [*self.on_cpu, "--save-dir", str(self.system), "--max-epoch", str(given.epochs)]
        line += ["--finetune-from-model", str(self.base.weights)] if self.base else []
        line += ["--log-format", "simple", "--log-interval", "20", "--log-file", str(self.system / "train.log")]
        output = self.system / "train.out"
        bar = progress.Progress(self.arch, 0, "", given.epochs or 1)
        line = progress.in_processes(line, self.processes)
        status = progress.run_with_progress(line, output, None, bar, self.environment)
        if status in _STOPPED:
            raise KeyboardInterrupt
        if status or not (self.system / "checkpoint_best.pt").is_file():
            said = output.read_text(encoding="utf-8", errors="replace")[-20_000:]
            raise UserError(f"the training failed: {_sentence(said)} (log: {output})")
        write_text(mark, f"{given.epochs}\n")

    def test_sets(self) -> dict[str, list[Path]]:
        """The sources and references of each test set: ``test``, and ``old-test`` of the original model."""
        references = sorted(self.text.glob("test.raw.tgt*"))
        sets = {"test": [self.text / "test.raw.src", *references]}
        if self.base and self.base.old_test:
            sets["old-test"] = self.base.old_test
        return sets

    def systems(self) -> dict[str, list[str]]:
        """Return the wean-generate options of each model to score.

        These are the new model and, if it was fine-tuned, the original model.
        """
        checkpoint = ["--model", str(self.system / "checkpoint_best.pt")]
        checkpoint += ["--data", str(self.data), "--text", str(self.text)]
        if self.base is None:
            return {self.arch: checkpoint}
        before = ["--model", str(self.base.weights), *self.bert]
        if not is_export(self.base.weights):
            before += ["--data", str(self.base.dictionaries[0].parent), "--text", str(self.base.text)]
        return {"before": before, "tuned": checkpoint}

    def output(self, system: str, test_set: str) -> Path:
        """Return the file for the outputs of a system."""
        return self.system / f"{'' if system == self.arch else f'{system}-'}{test_set}.txt"

    def decode(self) -> None:
        """Decode the test sources with the trained models, in the same way as users will apply the models."""
        write_search(self.system, self.search)
        for test_set, (sources, *_) in self.test_sets().items():
            for system, model in self.systems().items():
                output = self.output(system, test_set)
                mark = output.with_suffix(".source")
                made_from = f"{sha256_of(Path(model[1]))} {sha256_of(sources)} {shlex.join(self.search)}"
                before, _, digest = _read_mark(mark).rpartition("\n")
                # older versions wrote no checksum
                if output.is_file() and before == made_from and digest:
                    if digest != sha256_of(output):
                        raise UserError(f"{output} has changed since it was decoded: remove it to decode again.")
                    say(f"decoding {test_set} with {system}: done before")
                    continue
                say(f"decoding {test_set} with {system}")
                mark.unlink(missing_ok=True)
                line = [*model, *self.on_cpu, "--overwrite", "--input", str(sources), "--output", str(output)]
                _check(generate(line), f"{test_set} cannot be decoded, see above.")
                write_text(mark, f"{made_from}\n{sha256_of(output)}")

    def score(self) -> None:
        """Score the outputs and a copy of the source, and print the table of scores."""
        trained = {self.arch: trainings.describe_system(self.system)}
        note = self._note(trained[self.arch])
        if note:
            trained[self.arch]["note"] = note
            say(f"{self.arch} {note}")
        write_text(self.work / "trainings.json", json.dumps(trained, indent=1) + "\n")
        line = [*self.options.score, *(["--lowercase"] if self.lowercase else [])]
        line += ["--json", str(self.work / "test.json"), "--markdown", str(self.work / "test.md")]
        line += ["--overwrite", "--decoded"]
        sets = self.test_sets()
        for test_set, (sources, *references) in sets.items():
            outputs = [f"{system}={self.output(system, test_set)}" for system in self.systems()]
            role = "--topics" if self.settings.task == "essay" else "--src"
            own = ["--hyp", *outputs, role, str(sources), "--ref", *map(str, references)]
            line += own if len(sets) == 1 else ["--set", test_set, *own]
        _check(evaluate(line), "the outputs cannot be scored, see above.")

    @property
    def lowercase(self) -> bool:
        """True if the outputs are lower-cased."""
        text = read_text_settings(self.text)
        return text is not None and text.lowercase

    def _note(self, training: dict[str, Any]) -> str:
        if training["end"] != "cut":
            return ""
        # The settings file is written together with the model. It contains all settings except the work folder.
        command = [PROGRAM, "--config", str(self.settings.folder / FILE)]
        command += ["--work", self.settings.work] if self.settings.work else []
        return trainings.cut_note(training, shlex.join([*command, "--epochs", str(2 * (self.settings.epochs or 1))]))

    def publish(self) -> None:
        """Export the model and its settings. The output folder is replaced when the export is complete."""
        folder, mark = self.settings.folder, self.work / "published"
        checkpoint, scores = self.system / "checkpoint_best.pt", self.work / "test.json"
        note = json.loads((self.work / "trainings.json").read_text(encoding="utf-8"))[self.arch].get("note", "")
        note = note and f"The training of {self.arch} {note}"
        documents = {FILE: write_toml(self.settings, folder)}
        content = json.dumps([sha256_of(checkpoint), sha256_of(scores), note, documents])
        made_from = hashlib.sha256(content.encode()).hexdigest()
        if _read_mark(mark) == f"{_checksums_of(folder)}\n{made_from}\n":
            read_export(folder)  # refuses a damaged model
            say(f"model: done before ({folder})")
            return
        options: dict[str, Any] = {"note": note, "scores": scores, "documents": documents}
        write_text(mark, f"{_checksums_of(folder)}\n{_unfinished(folder, documents[FILE])}\n")
        export(checkpoint, folder, self.data, self.text, verify=True, overwrite=True, **options)
        write_text(mark, f"{_checksums_of(folder)}\n{made_from}\n")
        texts = "topics.txt" if self.settings.task == "essay" else "sentences.txt"
        say(f"model: {folder} ({shlex.join(['wean-generate', '--model', str(folder), '--input', texts])})")

    def report(self) -> None:
        """Write the report on the training, unless it already exists for this model and these scores."""
        folder, mark = self.work / "report", self.work / "report.source"
        made_from = f"{sha256_of(self.system / 'checkpoint_best.pt')} {sha256_of(self.work / 'test.json')}\n"
        page = folder / "report.html"
        if page.is_file() and _read_mark(mark) == made_from:
            say(f"report: done before ({page})")
            return
        with redirect_stdout(StringIO()):  # this hides the file names that the command prints
            status = write_report([str(self.work), "--output", str(folder)])
        _check(status, "the report cannot be written, see above.")
        write_text(mark, made_from)
        say(f"report: {page}")


def _read_mark(file: Path) -> str:
    """Return the mark that an earlier run wrote after finishing a step, or an empty string if it cannot be read."""
    with suppress(OSError):
        return read_regular(file).decode("utf-8", errors="replace")
    return ""


def _check(status: int, message: str) -> None:
    """Raise an error unless the exit status of a command is 0."""
    if status in _STOPPED:
        raise KeyboardInterrupt
    if status:
        raise UserError(message)


def _sentence(text: str, otherwise: str = "") -> str:
    """Return the last error message in the output of a program, or ``otherwise`` and the end of the output."""
    found = [match[1] for line in text.splitlines() if (match := _ERROR.search(line))]
    return found[-1] if found else otherwise + " ".join(text[-500:].split())


def _unfinished(folder: Path, settings: str) -> str:
    """Return the mark of a run that is writing its model folder with these settings."""
    content = os.fsencode(folder.absolute()) + b"\0" + settings.encode("utf-8", "replace")
    return f"unfinished {hashlib.sha256(content).hexdigest()}"


def _checksums_of(folder: Path) -> str:
    """Return the SHA-256 of the file of checksums in a model folder. Return an empty text if there is no such file."""
    return sha256_of(folder / CHECKSUMS) if (folder / CHECKSUMS).is_file() else ""


def run(settings: Settings) -> None:
    """Run all steps. Raise ``UserError`` if a step is impossible, and KeyboardInterrupt if the user stops the run."""
    training = TrainingRun(settings)
    training.check()
    with state.alone(training.work):
        training.prepare()
        training.train()
        training.decode()
        training.score()
        training.publish()
        training.report()
