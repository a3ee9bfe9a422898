"""Facts that a reader must know before any number: data, settings, missing parts and stand-in data."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..console import counted
from ..evaluation.tables import Table
from ..text import small_splits
from .document import ListBlock
from .runs import Leak, Run
from .scores import Experiment

_NAMED = 4  # largest number of systems that a title names


def title(experiment: Experiment) -> str:
    """Return the title of an experiment: its systems and their data."""
    systems = _systems(experiment)
    named = ", ".join(systems) if len(systems) <= _NAMED else f"{len(systems)} systems"
    data = [Path(path).name for path in experiment.runs[0].settings.get("DATA", "").split()]
    return f"{experiment.title}: {named}{' on ' if data else ''}{', '.join(data)}"


def dates(experiments: Sequence[Experiment]) -> str:
    """Return the first and the last day of all runs, or an empty string if no run has a date."""
    days = sorted({run.date for experiment in experiments for run in experiment.runs if run.date})
    return f"{days[0]} to {days[-1]}" if len(days) > 1 else "".join(days)


def _systems(experiment: Experiment) -> list[str]:
    return list(dict.fromkeys(system for run in experiment.runs for system in run.systems))


def summary(experiment: Experiment) -> str:
    """Return one sentence on an experiment."""
    systems = _systems(experiment)
    seeds = f"seed {', '.join(experiment.seeds)}" if experiment.seeds else "seed unknown"
    sets = f"scores on {', '.join(experiment.sets)}" if experiment.sets else "no scores yet"
    return f"{experiment.title}: {counted(len(systems), 'system')} ({', '.join(systems)}), {sets}, {seeds}."


def warnings(experiment: Experiment) -> Iterator[ListBlock]:
    """Yield the warnings that a reader must know before any number, as one list if there are any."""
    items = []
    for run in experiment.runs:
        prefix = f"Seed {run.seed}: " if len(experiment.runs) > 1 else ""
        tested = {name for test in run.sets.values() for name in test.evaluation.scores}
        idle = [name for name in run.systems if name not in tested]
        if idle and run.sets:
            items.append(f"{prefix}No scores of {', '.join(idle)}: not decoded, or not scored with the others.")
        unfinished = [system.name for system in run.systems.values() if system.log.valid and not system.log.done]
        if unfinished:
            items.append(f"{prefix}The training of {', '.join(unfinished)} had not come to its end, by its log.")
        improving = [system.name for system in run.systems.values() if system.log.done and system.log.is_improving]
        noted = " ".join(run.problems)  # the notes of a recipe say more about the end of a training
        improving = [name for name in improving if f"The training of {name} was ended" not in noted]
        if improving:
            names = ", ".join(improving)
            items.append(f"{prefix}The training of {names} ended too early: its last validation is the best.")
        items += [f"{prefix}{problem}" for problem in run.problems]
    items += dict.fromkeys(text for run in experiment.runs for text in _data_warnings(run))
    if len(experiment.runs) == 1 and experiment.sets:
        items.append("One seed: how much a score varies from training to training is unknown.")
    if items:
        yield ListBlock("Before you read the numbers", items, "warning")


def _data_warnings(run: Run) -> Iterator[str]:
    for manifest in [run.manifest, *(test.manifest for test in run.sets.values())]:
        if manifest.remark:
            yield f"Stand-in data: {manifest.remark}"
    trained = run.manifest.script
    for test in run.sets.values():
        script = test.manifest.script
        if trained and script and script != trained:
            yield (
                f"{test.name} was prepared by {script} and the training data by {trained}: the training set is not the "
                "one that published numbers on this test set were trained with, unless the recipe says so."
            )
    for sentence in small_splits({name: split.kept for name, split in run.manifest.splits.items()}):
        yield f"{sentence[:1].upper()}{sentence[1:]}."
    leak = run.manifest.leaks.get("train / test", Leak())
    if leak.pairs:
        verb = "is" if leak.pairs == 1 else "are"
        yield f"{counted(leak.pairs, 'pair')} of the training data {verb} in the test data too."
    elif leak.any:
        yield (
            f"No pair of the training data is in the test data, but {leak.any:,} training lines share a "
            "source or a target with it."
        )


def data_table(experiment: Experiment) -> Table:
    """Return a table of the scored files and of the size of the training data."""
    rows = []
    for run in experiment.runs[:1]:
        for name, split in run.manifest.splits.items():
            rows.append([f"{name} split", "–" if split.kept is None else f"{split.kept:,}", "–"])
    for name, scored in experiment.sets.items():
        for role, files in scored.evaluation.data.files.items():
            for file in files if role in ("source", "references") else []:
                label = f"{name}: {role}, {Path(file.name).name}"
                rows.append([label, f"{file.lines:,}" if file.lines else "–", file.sha256[:16]])
    script = experiment.runs[0].manifest.script
    notes = [f"Prepared by preprocess/{script}.py."] if script else []
    return Table(["what", "lines", "SHA-256"], rows, caption="Data", notes=notes)


def settings(experiment: Experiment) -> Iterator[ListBlock]:
    """Yield the settings of the recipe. Absolute paths are shortened, because other people read a report."""
    settings = experiment.runs[0].settings
    items = [f"{name}={_shorten(value)}" for name, value in settings.items()]
    items += [f"seeds: {', '.join(experiment.seeds)}"] if experiment.seeds else []
    if items:
        yield ListBlock("Settings of the recipe", items, folded=True)


def _shorten(value: str) -> str:
    path = Path(value)
    return str(Path("…", *path.parts[-2:])) if path.is_absolute() and " " not in value else value
