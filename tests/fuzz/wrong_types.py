"""Checkpoints and other nested content in which a value of another type replaces one member."""

import copy
import random
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import torch

GONE = "gone"  # value which means that the member is missing
VALUES: dict[str, Any] = {
    "None": None,
    "bool": True,
    "int": 7,
    "negative": -3,
    "float": 0.5,
    "nan": float("nan"),
    "text": "text",
    "no text": "",
    "bytes": b"bytes",
    "list": [1],
    "empty list": [],
    "nested": [[{"a": []}]],
    "tuple": (1, "a"),
    "dict": {"a": 1},
    "empty dict": {},
    "numbered": {0: 1},
    "options": Namespace(a=1),
    "tensor": torch.ones(2, 3),
    "number": torch.tensor(1.0),
    "empty": torch.zeros(0),
    "whole": torch.tensor([7]),
}


def places_of(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all values in nested lists and dictionaries."""
    found = [path] if path else []
    if isinstance(content, dict):
        found += [place for name, value in content.items() for place in places_of(value, (*path, name))]
    if isinstance(content, list):
        found += [place for number, value in enumerate(content) for place in places_of(value, (*path, number))]
    return found


def spoil(content: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of nested content with another value at one place. ``GONE`` removes the member."""
    spoilt = copy.deepcopy(content)
    parent = spoilt
    for step in place[:-1]:
        parent = parent[step]
    if value is GONE:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return spoilt


def wrong_members(state: dict[str, Any], number: int, seed: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``number`` versions of a checkpoint's content, each with one member of another type.

    Every member is changed once before any member is changed again, each time to another value.
    """
    chance = random.Random(seed)
    places = places_of(state)
    values = {**VALUES, GONE: GONE}
    rounds = []
    for first in range(len(values)):
        round_ = [(place, list(values)[(first + shift) % len(values)]) for shift, place in enumerate(places)]
        chance.shuffle(round_)
        rounds += [(place, name) for place, name in round_ if type(values[name]) is not type(_at(state, place))]
    for place, name in rounds[:number]:
        yield f"{'.'.join(map(str, place))} = {name}", spoil(state, place, values[name])


def _at(content: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        content = content[step]
    return content
