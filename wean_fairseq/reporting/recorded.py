"""Scores that were kept by ``wean-evaluate record``, read as a run of which nothing else is left."""

from pathlib import Path

from ..errors import UserError
from ..evaluation.corpus import COPY_ROW
from ..evaluation.evaluate import Evaluation
from ..evaluation.results import read_json
from .runs import Run, ScoredSet, System

_FACTS = ("command", "commit", "hardware")


def read_recorded(path: Path) -> Run:
    """Read a file of ``wean-evaluate record``.

    Raises:
        UserError: if it is no such file.
    """
    try:
        content = read_json(path, ("experiment", "evaluation"))
        evaluation = Evaluation.from_json(content["evaluation"])
    except (UserError, ValueError, TypeError, RecursionError):
        raise UserError(
            f"{path} is not what wean-evaluate record writes; give that, or the run directory of a recipe."
        ) from None
    run = Run(path.with_suffix(""), seed=str(content.get("seed", "")))
    run.settings = {name: _in_one_line(content[name]) for name in _FACTS if name in content}
    references = evaluation.data.get("files", {}).get("references", [])
    name = Path(str(references[0]["name"])).stem if references else str(content["experiment"])
    run.sets[name] = ScoredSet(name, evaluation)
    run.systems = {system: System(system) for system in evaluation.cells if system != COPY_ROW}
    run.problems.append("Recorded scores: the run itself was not given, so there are no curves, costs and outputs.")
    if content.get("note"):
        run.problems.append(str(content["note"]))
    return run


def _in_one_line(fact: object) -> str:
    return ", ".join(f"{name} {value}" for name, value in fact.items()) if isinstance(fact, dict) else str(fact)
