"""Describe the trainings: data, replaced data, settings, missing parts, model sizes and speed.

The training time is shown next to C-DNPG's Table 5.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..console import counted
from ..errors import UserError
from ..evaluation.published import PUBLISHED_TABLES
from ..evaluation.tables import Cell, Table
from ..text import small_splits
from .document import ListBlock
from .runs import Leak, Run
from .scores import Experiment

_NAMED = 4  # maximum number of systems that a title names
_OUTPUT_LAYERS = ("decoder.output.", "decoder.query_embedding.")
_HOURS = PUBLISHED_TABLES["cdnpg-table5"]
_ABSENT = "–"
_CONDITIONS = (
    "No benchmark: all times are from fairseq's logs, and other work on the machine can change them more than "
    "the systems do. An update is forward, backward and optimiser, without validation: the "
    "median over epochs; hours are that times the updates."
)


def title(experiment: Experiment) -> str:
    """Return the title of an experiment: its systems and their data."""
    systems = _systems(experiment)
    named = ", ".join(systems) if len(systems) <= _NAMED else f"{len(systems)} systems"
    data = [Path(path).name for path in experiment.runs[0].settings.get("DATA", "").split()]
    return f"{experiment.title}: {named}{' on ' if data else ''}{', '.join(data)}"


def dates(experiments: Sequence[Experiment]) -> str:
    """Return the days of the first and the last run, or an empty string if no run has a date."""
    days = sorted({run.date for experiment in experiments for run in experiment.runs if run.date})
    return f"{days[0]} to {days[-1]}" if len(days) > 1 else "".join(days)


def _systems(experiment: Experiment) -> list[str]:
    return list(dict.fromkeys(system for run in experiment.runs for system in run.systems))


def summary(experiment: Experiment) -> str:
    """Return one sentence with the systems, test sets and seeds of an experiment."""
    systems = _systems(experiment)
    seeds = f"seed {', '.join(experiment.seeds)}" if experiment.seeds else "seed unknown"
    sets = f"scores on {', '.join(experiment.sets)}" if experiment.sets else "no scores yet"
    return f"{experiment.title}: {counted(len(systems), 'system')} ({', '.join(systems)}), {sets}, {seeds}."


def warnings(experiment: Experiment) -> Iterator[ListBlock]:
    """Yield one list of the warnings that a reader must see before any number, if there are any."""
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
        # A training that is best at its end could have improved further.
        improving = [system.name for system in run.systems.values() if system.log.done and system.log.is_improving]
        # a recipe's note describes the end of a training better, so systems with a note are skipped
        noted = " ".join(run.problems)
        improving = [name for name in improving if f"The training of {name} was ended" not in noted]
        if improving:
            names = ", ".join(improving)
            items.append(f"{prefix}The training of {names} ended too early: its last validation is the best.")
        # The path of the run is left out, because other people read a report.
        items += dict.fromkeys(f"{prefix}{problem}".replace(f"{run.path}/", "") for problem in run.problems)
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
    """Return a table of the scored files and the sizes of the training data."""
    manifest = experiment.runs[0].manifest
    rows = [[f"{name} split", _shown(split.kept, ","), _ABSENT] for name, split in manifest.splits.items()]
    for name, scored in experiment.sets.items():
        for role, files in scored.evaluation.data.files.items():
            for file in files if role in ("source", "references") else []:
                label = f"{name}: {role}, {Path(file.name).name}"
                rows.append([label, _shown(file.lines or None, ","), file.sha256[:16]])
    notes = [f"Prepared by preprocess/{manifest.script}.py."] if manifest.script else []
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


def output_layer(checkpoint: Path | None) -> int | None:
    """Return the number of parameters of the output layer alone, or None if it is unknown."""
    if checkpoint is None:
        return None
    from ..checkpoints.export import read_model  # noqa: PLC0415 - needs torch

    try:
        parameters = read_model(checkpoint)["model"]
    except UserError:
        return None
    sizes = [value.numel() for name, value in parameters.items() if name.startswith(_OUTPUT_LAYERS)]
    return sum(sizes) if sizes else None


def published_hours(system: str) -> float | None:
    """Return the training hours of a system in C-DNPG's Table 5, or None. All variants of C-DNPG share one row."""
    name = "cdnpg_rs" if system.startswith("cdnpg_") else system
    rows = next(iter(_HOURS.rows.values())).values()
    return next((row.scores[0] for row in rows if name in row.runs), None)


def cost_table(run: Run) -> Iterator[Table]:
    """Yield a table of the size, training and decoding of every system of a run, if there are logs."""
    systems = [system for system in run.systems.values() if system.log.parameters]
    if not systems:
        return
    # The other systems' times are compared with those of ``transformer`` or, if it is missing, of the first system.
    first = next((system for system in systems if system.name == "transformer"), systems[0])
    yardstick, base = first.log.seconds_per_update, published_hours(first.name)
    timed = [system for system in systems if published_hours(system.name) is not None]
    with_hours = first in timed and len(timed) > 1 and not run.is_own_data
    sets = list(dict.fromkeys(name for system in systems for name in system.speed))
    head = ["system", "parameters", "of these in the output layer alone", "updates", "ms an update"]
    head += [f"as logged, relative to {first.name}", *["published, relative"] * with_hours]
    head += ["hours of updates", *(f"{name}: sentences decoded a second" for name in sets)]
    rows = []
    for system in systems:
        training, rate = system.log, system.log.seconds_per_update
        relative = None if rate is None or not yardstick else rate / yardstick
        row: list[Cell | str] = [system.name, f"{training.parameters:,}", _shown(output_layer(system.checkpoint), ",")]
        row += [f"{training.updates:,}", _shown(rate and 1000 * rate, ".0f"), _shown(relative, ".2f")]
        if with_hours:
            hours = published_hours(system.name)
            row.append(Cell(f"{hours / base:.2f}", mark="published") if hours and base else _ABSENT)
        row += [_shown(training.hours, ".2f"), *(_shown(system.speed.get(name), ".1f") for name in sets)]
        rows.append(row)
    notes = [_CONDITIONS]
    if run.seed:
        notes.append(f"Of the training with seed {run.seed}.")
    if with_hours:
        notes.append(f"Published: hours of training in {_HOURS.source}, divided by those of its {first.name}.")
    yield Table(head, rows, caption="Size, and speed as logged", notes=notes)


def _shown(number: float | None, form: str) -> str:
    return _ABSENT if number is None else format(number, form)
