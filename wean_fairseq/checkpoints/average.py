"""Average the parameters of several checkpoints of one training, or of trainings with the same options."""

import logging
import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..errors import UserError
from ..fields import start_files
from ..storage.files import replaces_file, sha256_of
from ..storage.manifest import NAME as CHECKSUMS
from . import writing
from .reading import options_of, read_checkpoint, same_tensors
from .resume import AVERAGE_OF, LAST, is_average, is_named, updates_of

logger = logging.getLogger(__name__)


def average(paths: Sequence[str | Path], output: str | Path, *, overwrite: bool = True) -> None:
    """Write a copy of the first checkpoint with the averaged parameters and without optimiser state.

    Args:
        paths: paths of the checkpoints to average.
        output: path of the checkpoint to write.
        overwrite: replace an existing file at ``output``.

    Raises:
        UserError: if there are fewer than two checkpoints, if they are of different models or have parameters that are
            not finite, or if ``output`` must not be written.
    """
    if len(paths) < 2:
        raise UserError(f"an average is of two checkpoints or more, but {len(paths)} was given.")
    if str(output).endswith("/") or Path(output).name == CHECKSUMS:
        raise UserError(f"{output} is not the name of a checkpoint: give one such as average.pt.")
    if os.path.realpath(output) in map(os.path.realpath, paths):
        raise UserError(f"{output} is one of the checkpoints to average: choose another --output.")
    if replaces_file(Path(output)) and not overwrite:
        raise UserError(f"{output} exists already: choose another --output, or pass --overwrite to replace it.")
    result = _read_finite(paths[0])
    model = result["model"]
    sums = {name: tensor.to(torch.float64, copy=True) for name, tensor in model.items() if tensor.is_floating_point()}
    seeds = [_random_start(result)]
    for path in paths[1:]:
        state = _read_finite(path, lazily=True)
        seeds.append(_random_start(state))
        _check_same(result, state, str(paths[0]), str(path))
        for name, tensor in state["model"].items():
            if name in sums:
                sums[name] += tensor.double()
            elif not torch.equal(model[name], tensor):
                raise UserError(
                    f"{paths[0]} and {path} cannot be averaged: {name} holds whole numbers, and they differ."
                )
    _warn_about_seeds(seeds, paths)
    same = same_tensors(model)
    for name, total in sums.items():
        model[name] = (total / len(paths)).to(model[name].dtype)
    digests = [sha256_of(Path(path)) for path in paths]
    for number, digest in enumerate(digests):
        if (first := digests.index(digest)) < number:
            is_same = Path(paths[number]).resolve() == Path(paths[first]).resolve()
            wrong = "is given more than once" if is_same else f"has the same content as {paths[first]}"
            logger.warning(
                f"{paths[number]} {wrong}, so that the average counts it more than once: give each checkpoint once"
            )
    result["model"] = {name: model[same.get(name, name)] for name in model}
    result.pop("last_optimizer_state", None)  # it belongs to only one of the averaged checkpoints
    result["extra_state"] = {**(result.get("extra_state") or {}), AVERAGE_OF: [str(path) for path in paths]}
    writing.save(result, Path(output), keep_link=True)


def _read_finite(path: str | Path, *, lazily: bool = False) -> dict[str, Any]:
    state = read_checkpoint(path, lazily=lazily)
    if (name := writing.not_finite(state["model"])) is not None:
        raise UserError(f"{path} has NaN or infinity in {name}, because its training diverged: average others.")
    return state


def _random_start(state: dict[str, Any]) -> Any:
    """Return the seed of the first parameters of a training, or None if the training began with other parameters."""
    saving = options_of(state, "checkpoint")
    # the values of a foreign checkpoint may be of any type
    start, folder = (str(saving.get(name) or default) for name, default in (("restore_file", LAST), ("save_dir", "")))
    is_continued = is_named(Namespace(restore_file=start, save_dir=folder))
    is_continued |= any(saving.get(option) for option in ("continue_once", "finetune_from_model"))
    return None if is_continued else options_of(state, "common").get("seed")


def _warn_about_seeds(seeds: Sequence[Any], paths: Sequence[str | Path]) -> None:
    """Warn about checkpoints that were trained from different random parameters."""
    known = [(path, seed) for path, seed in zip(paths, seeds, strict=True) if seed is not None]
    for path, seed in known:
        first_path, first_seed = known[0]
        if seed != first_seed:
            logger.warning(
                f"{first_path} was trained with --seed {first_seed} and {path} with --seed {seed}: if they began with "
                "different random parameters, their average is worse than each of them; decode with an ensemble "
                "instead (--path A:B)"
            )
            return


def _check_same(first: dict[str, Any], other: dict[str, Any], name: str, other_name: str) -> None:
    options, others = (options_of(state, "model") for state in (first, other))
    # these options are paths and say nothing about the model, so they are not compared
    elsewhere = {"data", *start_files()}
    for option in sorted({*options, *others} - elsewhere):
        if options.get(option) != others.get(option):
            raise UserError(
                f"{name} and {other_name} cannot be averaged: {option.lstrip('_')} is {options.get(option)} in the one "
                f"and {others.get(option)} in the other; average checkpoints of trainings with the same options."
            )
    dictionaries, other_words = ((state.get("task_state") or {}).get("dictionaries") for state in (first, other))
    if None not in (dictionaries, other_words) and dictionaries != other_words:
        raise UserError(f"{name} and {other_name} cannot be averaged: they were trained with different dictionaries.")
    shapes, others = (
        {key: (tensor.shape, tensor.dtype) for key, tensor in state["model"].items()} for state in (first, other)
    )
    differing = sorted(key for key in {*shapes, *others} if shapes.get(key) != others.get(key))
    if differing:
        raise UserError(
            f"{name} and {other_name} cannot be averaged: they differ in {differing[0]}; average checkpoints of "
            "one arch."
        )


def newest(folder: str | Path, number: int) -> list[Path]:
    """Return a training's ``number`` newest checkpoints, at most one for each number of updates.

    Raises:
        UserError: if the folder contains fewer than ``number`` checkpoints.
    """
    by_updates: dict[int, Path] = {}
    for path in sorted(Path(folder).glob("checkpoint*.pt")):
        state = read_checkpoint(path, lazily=True)
        if not is_average(state):
            by_updates.setdefault(updates_of(state), path)
    if len(by_updates) < number:
        raise UserError(
            f"{folder} has checkpoints of {len(by_updates)} different updates, but --last {number} was asked for."
        )
    return [by_updates[updates] for updates in sorted(by_updates, reverse=True)[:number]]
