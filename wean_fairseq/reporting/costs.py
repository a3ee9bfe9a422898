"""Tables of costs: sizes of models, training time (C-DNPG's Table 5), speed of decoding."""

from collections.abc import Iterator
from pathlib import Path

from ..errors import UserError
from ..evaluation.published import PUBLISHED_TABLES
from ..evaluation.tables import Cell, Table
from .runs import Run

_OUTPUT_LAYERS = ("decoder.output.", "decoder.query_embedding.")
_HOURS = PUBLISHED_TABLES["cdnpg-table5"]
_ABSENT = "–"
_CONDITIONS = (
    "No benchmark: all times are from fairseq's logs, and other work on the machine can change them more than "
    "the systems do. An update is forward, backward and optimiser, without validation: the "
    "median over epochs; hours are that times the updates."
)


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
    """Return the hours of training of a system in C-DNPG's Table 5, whose variants share one row, or None."""
    name = "cdnpg_rs" if system.startswith("cdnpg_") else system
    rows = next(iter(_HOURS.rows.values())).values()
    return next((row.scores[0] for row in rows if name in row.runs), None)


def cost_table(run: Run) -> Iterator[Table]:
    """Yield a table of size, training and decoding of every system of a run, if there are logs."""
    systems = [system for system in run.systems.values() if system.log.parameters]
    if not systems:
        return
    first = next(
        (system for system in systems if system.name == "transformer"), systems[0]
    )  # the other systems are compared with it
    yardstick = first.log.seconds_per_update
    timed = [system for system in systems if published_hours(system.name) is not None]
    with_hours = first in timed and len(timed) > 1 and not run.is_own_data
    sets = list(dict.fromkeys(name for system in systems for name in system.speed))
    head = [
        "system",
        "parameters",
        "of these in the output layer alone",
        "updates",
        "ms an update",
        f"as logged, relative to {first.name}",
    ]
    head += ["published, relative"] if with_hours else []
    head += ["hours of updates", *(f"{name}: sentences decoded a second" for name in sets)]
    rows = []
    for system in systems:
        training, own = system.log, output_layer(system.checkpoint)
        rate = training.seconds_per_update
        row: list[Cell | str] = [system.name, f"{training.parameters:,}", _ABSENT if own is None else f"{own:,}"]
        row += [f"{training.updates:,}", _ABSENT if rate is None else f"{1000 * rate:.0f}"]
        row.append(_ABSENT if rate is None or not yardstick else f"{rate / yardstick:.2f}")
        if with_hours:
            hours, base = published_hours(system.name), published_hours(first.name)
            row.append(Cell(f"{hours / base:.2f}", mark="published") if hours and base else _ABSENT)
        row.append(_ABSENT if training.hours is None else f"{training.hours:.2f}")
        row += [f"{system.speed[name]:.1f}" if name in system.speed else _ABSENT for name in sets]
        rows.append(row)
    notes = [_CONDITIONS]
    if run.seed:
        notes.append(f"Of the training with seed {run.seed}.")
    if with_hours:
        notes.append(f"Published: hours of training in {_HOURS.source}, divided by those of its {first.name}.")
    yield Table(head, rows, caption="Size, and speed as logged", notes=notes)
