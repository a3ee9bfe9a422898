"""Configurations that would run code if a tool evaluated them, resolved them or trusted their types.

Every expression contains ``MARK``. Therefore any evaluation is detected (see ``audited.py``), even if the expression is
harmless. An evaluated expression of ``ACTIONS`` acts immediately, for example by creating a folder.
"""

import contextlib
import random
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairseq.models import ARCH_CONFIG_REGISTRY
from omegaconf import OmegaConf

MARK = "weanmark"

# Expressions that contain a call. If one is evaluated, it immediately creates a file, a folder or a process.
ACTIONS = (
    f"__import__('os').mkdir('{MARK}')",
    f"__import__('os').system('touch {MARK}')",
    f"__import__('subprocess').run(['touch', '{MARK}'])",
    f"open('{MARK}', 'w')",
    f"exec('import os; os.mkdir(\\'{MARK}\\')')",
    f"[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '{MARK}']",
    f"(lambda: __import__('{MARK}'))()",
    f"__import__('os').posix_spawn('/bin/touch', ['touch', '{MARK}'], {{}})",
)
# Expressions that contain no call. A check that only looks for calls would miss them.
WITHOUT_CALLS = (
    f"[x['{MARK}'] for x.__class__.__getitem__ in [__import__]]",
    f"[0 for __builtins__['{MARK}'] in [1]]",
    f"'{MARK}'.__class__.__mro__[1].__subclasses__",
    f"f'{{\"{MARK}\"!r:>{{9}}}}'",
    f"lambda x='{MARK}', *a: x",
    f"'{MARK}' @ __import__",
    f"{{'{MARK}': 1}}['{MARK}']",
    f"({MARK} := '{MARK}')",
    f"'{MARK}' if print else {MARK}",
    f"[*'{MARK}']",
    f"{{**{{'{MARK}': 1}}}}",
    f"{{'{MARK}', 1}}",
    f"b'{MARK}'",
    f"'{MARK}' < '{MARK}' < print",
    f"not '{MARK}'",
    f"'{MARK}'[::-1]",
    f"{MARK}",
    f"{MARK}.{MARK}.{MARK}",
    f"('{MARK}' for y in {MARK})",
    f"[y async for y in {MARK}]",
    f"'{MARK}' and 9**9**9**9",
    f"9**9**9**9 + {MARK}",
    f"[0] * 10**10 + ['{MARK}']",
    f"'{MARK}' * 10**12",
    f"'{MARK}' + '{MARK}'",
    f"'{MARK}' % ()",
    f"1j * {MARK}",
)
# Patterns that surround an expression with other expressions, and with characters that Python ignores.
AROUND = (
    "({})", "[{}]", "({},)", "[1, ({}, 2)]", "{{'a': {}}}", "{{1: [{}]}}", "[{}] * 2", "[1] + [{}]", "1 + {}", "-{}",
    "{} or 1", "[{} for _ in (1,)]", " {}", "\n\t{}", "{}  # ,)", "(\n{}\n)", "\x0c{}", "{}\\\n", "lambda: {}",
    "{}.real", "(512, 10, 5), {}", "0.9, {}", "True if {} else False",
)  # fmt: skip
# Sections of a configuration with options that fairseq evaluates, by arch, task and criterion.
PLACES: tuple[dict[str, Any], ...] = tuple(
    {"section": section, "name": name, "option": option}
    for section, name, options in (
        ("model", "lstm", ("decoder_attention", "adaptive_softmax_cutoff")),
        ("model", "lstm_lm", ("decoder_attention", "adaptive_softmax_cutoff")),
        ("model", "fconv", ("encoder_layers", "decoder_layers", "decoder_attention")),
        ("model", "fconv_lm", ("decoder_layers", "decoder_attention")),
        (
            "model",
            "fconv_self_att",
            ("pretrained", "encoder_attention", "self_attention", "project_input", "downsample"),
        ),
        ("model", "transformer", ("adaptive_softmax_cutoff", "xformers_att_config")),
        ("model", "transformer_lm", ("character_filters", "adaptive_input_cutoff", "adaptive_softmax_cutoff")),
        ("model", "lightconv", ("adaptive_softmax_cutoff",)),
        ("model", "lightconv_lm", ("character_filters", "adaptive_input_cutoff")),
        ("model", "wav2vec2", ("conv_feature_layers",)),
        ("model", "wav2vec", ("conv_feature_layers", "conv_aggregator_layers")),
        ("model", "hubert", ("conv_feature_layers",)),
        ("model", "s2t_wav_transformer", ("conv_feature_layers",)),
        ("task", "multilingual_translation", ("left_pad_source", "left_pad_target")),
        ("task", "audio_pretraining", ("feature_encoder_spec",)),
        ("criterion", "ctc", ("wer_args",)),
        ("optimizer", "adam", ("adam_betas",)),
        ("optimizer", "adafactor", ("adafactor_eps",)),
        ("distributed_training", None, ("pipeline_balance", "pipeline_devices")),
    )
    for option in options
)


class Variant(NamedTuple):
    """The ``cfg`` and the ``args`` of a hostile checkpoint, with a description."""

    name: str
    cfg: Any
    args: Any


def _section(cfg: dict[str, Any], place: dict[str, Any], value: Any) -> dict[str, Any]:
    """Return a copy of ``cfg`` in which the option of ``place`` has the given value.

    The section also gets the name and the defaults of the arch, task or criterion that reads the option.
    """
    kept = cfg.get(place["section"]) if place["section"] != "model" else {}
    named = {} if place["name"] is None else {"_name": place["name"], "arch": place["name"], "task": "translation"}
    return {**cfg, place["section"]: {**(kept or {}), **named, **_defaults(place), place["option"]: value}}


def _defaults(place: dict[str, Any]) -> dict[str, Any]:
    """Return the options that a fairseq arch needs before it evaluates the hostile option."""
    sizes = Namespace(
        max_source_positions=64, max_target_positions=64, tokens_per_sample=64, share_all_embeddings=False
    )
    if place["section"] == "model" and place["name"] in ARCH_CONFIG_REGISTRY:
        with contextlib.suppress(AttributeError):
            ARCH_CONFIG_REGISTRY[place["name"]](sizes)
    return vars(sizes) if place["section"] == "model" else {}


def _halves(cfg: dict[str, Any], place: dict[str, Any], code: str) -> dict[str, Any]:
    """Put the code into two options of the same section. Interpolation joins them."""
    changed = _section(cfg, place, f"${{{place['section']}.a}}${{.b}}")
    changed[place["section"]] |= {"a": code[: len(code) // 2], "b": code[len(code) // 2 :]}
    return changed


def _across(cfg: dict[str, Any], place: dict[str, Any], code: str) -> dict[str, Any]:
    """Put the code into file names of two other sections. Interpolation joins them."""
    changed = _section(cfg, place, "${checkpoint.save_dir}${task.data}")
    half = len(code) // 2
    changed["checkpoint"] = {**(cfg.get("checkpoint") or {}), "save_dir": code[:half]}
    changed["task"] = {**changed["task"], "data": code[half:]}
    return changed


def _legacy(cfg: dict[str, Any], place: dict[str, Any], value: Any) -> Namespace:
    """Return the options of an old checkpoint, which has all of them in one namespace."""
    kept = {
        **_defaults(place),
        "task": "translation",
        "data": cfg["task"]["data"],
        "source_lang": "src",
        "target_lang": "tgt",
    }
    return Namespace(**{**kept, "arch": place["name"] or "lstm", "criterion": "cross_entropy", place["option"]: value})


def _deep(value: Any) -> Any:
    for _ in range(100):
        value = [value]
    return value


def _endless(section: dict[str, Any]) -> dict[str, Any]:
    section["itself"] = section
    return section


# Ways to put code into a configuration. Each maps (configuration, place, code) to (cfg, args).
CONTAINERS: dict[str, Callable[[dict[str, Any], dict[str, Any], str], tuple[Any, Any]]] = {
    "dict": lambda cfg, at, code: (_section(cfg, at, code), None),
    "Namespace": lambda cfg, at, code: (
        {**cfg, at["section"]: Namespace(**_section(cfg, at, code)[at["section"]])},
        None,
    ),
    "OrderedDict": lambda cfg, at, code: (OrderedDict(_section(cfg, at, code)), None),
    "DictConfig": lambda cfg, at, code: (
        {**cfg, at["section"]: OmegaConf.create(_section(cfg, at, code)[at["section"]])},
        None,
    ),
    "whole DictConfig": lambda cfg, at, code: (OmegaConf.create(_section(cfg, at, code)), None),
    "DictConfig of Namespace": lambda cfg, at, code: (
        {**cfg, at["section"]: Namespace(deep=OmegaConf.create({at["option"]: code}))},
        None,
    ),
    "ListConfig": lambda cfg, at, code: (_section(cfg, at, OmegaConf.create([code])), None),
    "deep": lambda cfg, at, code: (_section(cfg, {**at, "option": "w2v_args"}, {"a": [({at["option"]: code},)]}), None),
    "bytes": lambda cfg, at, code: (_section(cfg, at, code.encode()), None),
    "bytearray": lambda cfg, at, code: (_section(cfg, at, bytearray(code.encode())), None),
    "set": lambda cfg, at, code: (_section(cfg, at, {code}), None),
    "interpolation": lambda cfg, at, code: (_halves(cfg, at, code), None),
    "across sections": lambda cfg, at, code: (_across(cfg, at, code), None),
    "interpolated DictConfig": lambda cfg, at, code: (OmegaConf.create(_halves(cfg, at, code)), None),
    "resolver": lambda cfg, at, code: (_section(cfg, at, f"${{oc.decode:{code!r}}}"), None),
    "environment": lambda cfg, at, code: (_section(cfg, at, "${oc.env:PATH}" + code), None),
    "name": lambda cfg, at, code: (_section(cfg, {**at, "option": f"${{{at['option']}}}"}, code), None),
    "without end": lambda cfg, at, code: (
        {**cfg, at["section"]: _endless(_section(cfg, at, code)[at["section"]])},
        None,
    ),
    "100 deep": lambda cfg, at, code: (_section(cfg, {**at, "option": "deep"}, _deep({at["option"]: code})), None),
    "enormous": lambda cfg, at, code: (_section(cfg, {**at, "option": "many"}, [code] * 200_000), None),
    "long": lambda cfg, at, code: (_section(cfg, at, code + " " * 200_000), None),
    "args": lambda cfg, at, code: (None, _legacy(cfg, at, code)),
    "args beside cfg": lambda cfg, at, code: (cfg, _legacy(cfg, at, code)),
    "args with bytes": lambda cfg, at, code: (None, _legacy(cfg, at, code.encode())),
    "args with interpolation": lambda cfg, at, code: (None, _legacy(cfg, at, f"${{oc.decode:{code!r}}}")),
    "args as dict": lambda cfg, at, code: (None, vars(_legacy(cfg, at, code))),
    "args as DictConfig": lambda cfg, at, code: (None, OmegaConf.create(vars(_legacy(cfg, at, code)))),
    "args with DictConfig": lambda cfg, at, code: (
        None,
        Namespace(**{**vars(_legacy(cfg, at, "1")), "w2v_args": OmegaConf.create({at["option"]: code})}),
    ),
}


# Containers whose types fairseq itself writes, so a tool can only refuse the option.
PLAIN = ("dict", "Namespace", "args", "args beside cfg")


def expression(chance: random.Random) -> str:
    """Return a random expression that contains ``MARK`` and is not a literal."""
    code = chance.choice(chance.choice((ACTIONS, WITHOUT_CALLS)))
    for _ in range(chance.choice((0, 0, 1, 2))):
        code = chance.choice(AROUND).format(code)
    return code


def variants(cfg: dict[str, Any], number: int, seed: int, among: Sequence[str]) -> list[Variant]:
    """Return up to ``number`` hostile variants of a configuration, from all places and the containers in ``among``."""
    chance = random.Random(seed)
    containers = list(among) * (number // len(among) + 1)
    places = list(PLACES) * (number // len(PLACES) + 1)
    chance.shuffle(places)
    made = []
    for container, place in list(zip(containers, places, strict=False))[:number]:
        code = expression(chance)
        name = f"{container}: {place['name']}.{place['option']} = {code}"
        made.append(Variant(name, *CONTAINERS[container](cfg, place, code)))
    return made
