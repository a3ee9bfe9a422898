"""Scores that were kept by ``wean-evaluate record``, read as a run of which nothing else is left."""

from pathlib import Path

from ..errors import UserError
from ..evaluation.corpus import COPY_ROW
from ..evaluation.results import read_json
from .runs import Run, ScoredSet, System, is_sound, tests_of

_FACTS = ("command", "commit", "hardware")


def read_recorded(path: Path) -> Run:
    """Read a file of ``wean-evaluate record``.

    Raises:
        UserError: if it is no such file.
    """
    try:
        content = read_json(path, ("experiment", "evaluation"))
    except (UserError, ValueError, RecursionError):
        content = {}
    scores = content.get("evaluation")
    if not (isinstance(scores, dict) and {"systems", "data"} <= scores.keys() and is_sound(scores)):
        raise UserError(f"{path} is not what wean-evaluate record writes; give that, or the run directory of a recipe.")
    run = Run(path.with_suffix(""), seed=str(content.get("seed", "")))
    run.settings = {name: _in_one_line(content[name]) for name in _FACTS if name in content}
    references = scores["data"].get("files", {}).get("references", [])
    name = Path(str(references[0]["name"])).stem if references else str(content["experiment"])
    run.sets[name] = ScoredSet(name, scores["systems"], tests_of(scores), scores["data"])
    run.systems = {system: System(system) for system in scores["systems"] if system != COPY_ROW}
    run.problems.append("Recorded scores: the run itself was not given, so there are no curves, costs and outputs.")
    if content.get("note"):
        run.problems.append(str(content["note"]))
    return run


def _in_one_line(fact: object) -> str:
    return ", ".join(f"{name} {value}" for name, value in fact.items()) if isinstance(fact, dict) else str(fact)
