"""Write and read a trained model as plain files, with the data that converts text to tokens and back.

Weights are stored as safetensors. The configuration and the steps that turn text into tokens are stored as JSON.
Dictionaries, and data that these steps have learnt (such as subword codes), are text files. Tensors that share memory
(tied embeddings) are written once, and ``config.json`` maps their other names to them.
"""

import json
import logging
import os
import re
import sys
from argparse import Namespace
from collections.abc import Collection, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import GenerationConfig
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, load_file, save

from ..console import without_folders
from ..data.given_text import compare_text
from ..errors import UserError, name_some
from ..ranges import check_no_reference
from ..storage import archive
from ..storage.files import (
    check_size,
    copy_into,
    is_utf8,
    read_regular,
    remove_partial,
    sha256_of,
    whole_folder,
    write_text,
    write_whole,
)
from ..storage.json_files import read_json
from ..storage.manifest import NAME as CHECKSUMS
from ..storage.manifest import Damaged, Manifest, check_file
from ..storage.search import SEARCH_FILE, TASK_OPTIONS, check_generation, check_stored, kept_search, kinds_of
from ..text.settings import BPE_CODES, EXAMPLE, MODEL_TEXT, TRUECASE_MODEL, WORDPIECES, Text, prepared_text, settings_of
from . import dictionaries, writing
from .card import CARD, write_card
from .ctranslate2_format import convert
from .reading import check_members, checked_options, read_checkpoint, same_tensors

logger = logging.getLogger(__name__)

WEIGHTS, CONFIG, TEXT, NOTE = "model.safetensors", "config.json", MODEL_TEXT, "note.txt"
CTRANSLATE2 = "ctranslate2"
_NAMES = (WEIGHTS, CONFIG, TEXT, NOTE, CARD, EXAMPLE, CHECKSUMS, TRUECASE_MODEL, BPE_CODES, WORDPIECES, "model.bin")
_WRITTEN = re.compile("|".join([r"dict\..+\.txt|(source|target|shared)_vocabulary\.json", *map(re.escape, _NAMES)]))
EXPORT_FORMAT = 1  # version of the format of config.json
_LARGEST_CONFIG = 1 << 23  # maximum size of config.json in bytes
_ADVICE = "export the model again"
# sections of the configuration that are exported. The other sections describe the training
_KEPT = ("task", "model", "criterion", "generation")


def is_export(path: str | Path) -> bool:
    """Return True if ``path`` is a folder of ``export``, or a weights file with the name used in such a folder."""
    return str(path).endswith(".safetensors") or (Path(path) / WEIGHTS).is_file()


def check_unused(path: str | Path, **given: object) -> None:
    """Raise ``UserError`` if an option is given that an exported folder does not use. None = an option not given."""
    unused = [name for name, value in given.items() if value is not None]
    if unused and is_export(path):
        raise UserError(f"the folder {path} has its own data and text: leave the option {unused[0]} out.")


def export(
    checkpoint: str | Path,
    folder: str | Path,
    data: str | Path | None = None,
    text: str | Path | None = None,
    search: dict[str, Any] | None = None,
    ctranslate2: bool = False,
    example: bool = True,
    note: str = "",
    verify: bool = False,
    scores: str | Path | None = None,
    documents: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> bool:
    """Write ``folder``/{model.safetensors, config.json, dict.*.txt, text.json, README.md, ..., checksums.sha256}.

    Args:
        checkpoint: a checkpoint of fairseq-train.
        folder: path of the new folder. It must not exist or must be empty, unless ``overwrite`` is set.
        data: directory of the dictionaries (default: the data directory of the training).
        text: output directory of the ``preprocess/`` script for the training text (default: recorded in the data).
        search: generation options by name, including search_preset and essay_length. The given options override those
            in the checkpoint and in the file next to it.
        ctranslate2: also write ``folder``/ctranslate2 for the library CTranslate2.
        example: write a sentence of the validation data to example.txt, if the text steps are known.
        note: text for note.txt, for example that the training had not converged. Absolute paths in the note are
            shortened to file names.
        verify: load the new folder, and write nothing if loading fails. A model whose BERT is missing cannot be loaded,
            so it needs ``verify=False``.
        scores: a JSON file of ``wean-evaluate``, for the model card.
        documents: further text files to write, by file name.
        overwrite: once the new folder is complete, replace an older folder that contains only files of an export and
            ``documents``, and none that has been edited.

    Returns:
        True if the steps that turn text into the model's tokens are known. Otherwise no text.json is written.

    Raises:
        UserError: if the checkpoint or the dictionaries are not valid, the folder contains files, or CTranslate2 does
            not support the model.
    """
    folder = Path(folder).resolve()
    check_no_reference("the folder", folder)
    remove_partial(folder.parent, folder.name)
    _check_free(folder, overwrite, documents or {})
    note = without_folders(note)
    state = _read_complete(checkpoint)
    cfg = state["cfg"]
    task_cfg = cfg["task"]
    data = Path(str(data or task_cfg.get("data")).split(":")[0])
    task_cfg |= sides_of(task_cfg, data)
    sources = _dictionary_files(task_cfg, data, state, str(checkpoint))
    prepared = prepared_text(data, text)
    if text is not None:
        compare_text(data, Path(text))
    _store_search(cfg, checkpoint, search or {})
    # The model card is composed before the folder exists. If the file of scores cannot be read, no files are left
    # behind.
    card = write_card(state, read_regular(sources[-1]).count(b"\n"), prepared, scores, note)
    try:
        # The files are written to a hidden folder, which is renamed when it is complete. Therefore a killed export
        # leaves no folder that looks like a model.
        with whole_folder(folder, replace=overwrite) as partial:
            if prepared is not None:
                sources += prepared.files
                write_text(partial / TEXT, json.dumps(asdict(prepared.settings), indent=2, ensure_ascii=False) + "\n")
                if example and prepared.example:
                    write_text(partial / EXAMPLE, f"{prepared.example}\n")
            if note:
                write_text(partial / NOTE, f"{note}\n")
            for name, content in {CARD: card, **(documents or {})}.items():
                write_text(partial / name, content)
            _write(state, sources, partial)
            if ctranslate2 or (verify and Path(task_cfg.get("bert") or partial).is_dir()):
                _verify(partial, str(checkpoint), ctranslate2)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): choose another directory.") from error
    return prepared is not None


def _read_complete(checkpoint: str | Path) -> dict[str, Any]:
    """Read a checkpoint. Raise ``UserError`` if it lacks anything that an exported model needs."""
    state = read_checkpoint(checkpoint)
    cfg = state["cfg"] or {}
    complete = isinstance(cfg.get("task"), dict) and isinstance(cfg.get("model"), dict | Namespace)
    if not (complete and state.get("optimizer_history")):
        raise UserError(f"{checkpoint} holds no configuration: only models with one can be exported.")
    # A diverged model would load without an error and write nonsense.
    if (name := writing.not_finite(state["model"])) is not None:
        raise UserError(f"{checkpoint} cannot be exported: {name} is not finite; export another checkpoint.")
    # An exported model is never resumed, so it does not need the state of the learning-rate schedule.
    history = [{**entry, "lr_scheduler_state": {}} for entry in state["optimizer_history"]]
    kept = {"optimizer_history": history, "task_state": state.get("task_state") or {}}
    state |= checked_options(Path(checkpoint), kept, dict)
    return state


def _store_search(cfg: dict[str, Any], checkpoint: str | Path, search: dict[str, Any]) -> None:
    """Put the search options into the configuration. Raise ``UserError`` if no model can be used with them."""
    stored, task_cfg = kept_search(checkpoint), cfg["task"]
    search = stored | search
    check_stored({name: search[name] for name in stored}, f": fix {Path(checkpoint).parent / SEARCH_FILE}")
    if "essay_length" in search and task_cfg.get("_name") != "topic_essay":
        raise UserError(f"--essay-length is for models of the task topic_essay, and {checkpoint} is not: leave it out.")
    # The options of this package's searches belong to the task. All other search options are fairseq's generation
    # options.
    task_cfg |= {name: search.pop(name) for name in TASK_OPTIONS if name in search}
    if search:
        cfg["generation"] = {**(cfg.get("generation") or asdict(GenerationConfig())), **search}
    if isinstance(cfg.get("generation"), dict):
        try:  # also for a model that cannot be loaded here, because its BERT is missing
            check_stored(cfg["generation"])
            check_generation(Namespace(**cfg["generation"]), sys.maxsize, _preset(task_cfg, cfg["generation"]))
        except UserError as error:
            raise UserError(f"{checkpoint} cannot be exported: {error}") from error


def _check_free(folder: Path, overwrite: bool, documents: Mapping[str, str]) -> None:
    """Refuse a path that is a file, or a folder with files. With ``overwrite``, an exported model is accepted."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not overwrite or not folder.is_dir():
        raise UserError(
            f"{folder} is a file or has files already: delete it, choose another directory, or replace an older "
            "exported model with --overwrite."
        )
    recorded = Manifest(folder).digests
    # Folders of data and of checkpoints may also contain recorded checksums, so these two files must be among them.
    if not {WEIGHTS, CONFIG} <= recorded.keys():
        raise UserError(f"{folder} is not an exported model: delete it, or choose another directory.")
    others = sorted(set(_foreign_files(folder, recorded.keys(), documents)) - {CTRANSLATE2})
    if (folder / CTRANSLATE2).is_dir():
        inside = folder / CTRANSLATE2
        others += [f"{CTRANSLATE2}/{name}" for name in sorted(_foreign_files(inside, Manifest(inside).digests, ()))]
    others += {*_foreign_dictionaries(folder)} - {*others}
    if others:
        raise UserError(f"{folder} has files that are not of its model ({name_some(others)}): move them elsewhere.")
    for place in (folder, folder / CTRANSLATE2):
        manifest = Manifest(place)
        for name in manifest.digests:
            if (place / name).exists():
                check_file(
                    place / name, "move it elsewhere, because a new model replaces the folder", manifest=manifest
                )


def _foreign_dictionaries(folder: Path) -> list[str]:
    """Return the names of files that are named like dictionaries, but are not those of the model's two languages."""
    try:
        task = read_json(folder / CONFIG, _LARGEST_CONFIG)["cfg"]["task"]
        used = {f"dict.{task[side]}.txt" for side in ("source_lang", "target_lang")}
    except (OSError, ValueError, LookupError, TypeError):  # missing or damaged, which is reported elsewhere
        return []
    return sorted(path.name for path in folder.glob("dict.*.txt") if path.name not in used)


def _foreign_files(folder: Path, recorded: Collection[str], documents: Collection[str]) -> list[str]:
    """Return the names of the files in a folder that ``export`` did not write.

    A recorded checksum does not prove that ``export`` wrote a file, because wean-checksum records checksums, too.
    """
    known = {CHECKSUMS, *recorded}
    return [
        path.name
        for path in folder.iterdir()
        if not (path.name in known and path.is_file() and (_WRITTEN.fullmatch(path.name) or path.name in documents))
    ]


def _write(state: dict[str, Any], files: list[Path], folder: Path) -> None:
    same_as = same_tensors(state["model"])
    weights = {name: tensor.contiguous() for name, tensor in state["model"].items() if name not in same_as}
    write_whole(folder / WEIGHTS, lambda file: file.write(save(weights)))
    cfg = {section: state["cfg"][section] for section in _KEPT if state["cfg"].get(section) is not None}
    cfg["task"] = {**cfg["task"], "data": "."}  # the exported folder contains the dictionaries
    if isinstance(cfg["model"], Namespace):
        cfg["model"] = _options_of_old_arch(state["cfg"])
    config = {
        "format": EXPORT_FORMAT,
        "cfg": cfg,
        "same_as": same_as,
        "optimizer_history": state["optimizer_history"],
        "task_state": state["task_state"],
    }
    try:
        text = json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise UserError("an option of the checkpoint is not a finite number: export another checkpoint.") from error
    write_text(folder / CONFIG, f"{text}\n")
    for path in files:
        write_whole(folder / path.name, partial(copy_into, path))
    _record_checksums(folder)


def _record_checksums(folder: Path) -> None:
    Manifest(folder).confirm({path.name: sha256_of(path) for path in folder.iterdir()})


def _verify(folder: Path, checkpoint: str, ctranslate2: bool) -> None:
    """Load the new folder as its users will load it, and convert the model to CTranslate2 if requested.

    Raise ``UserError`` if that fails.
    """
    try:
        models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(folder)])
        if hasattr(task.cfg, "search_preset"):
            task.cfg.search_preset = _preset(task.cfg, cfg.generation)
        task.build_generator(models, cfg.generation)
    except UserError as error:
        raise UserError(f"{checkpoint} cannot be exported: {str(error).replace(str(folder), checkpoint)}") from error
    if ctranslate2:
        convert(models[0].eval(), task, folder / CTRANSLATE2)
        _record_checksums(folder / CTRANSLATE2)


def _preset(task_cfg: Any, generation: Any) -> str:
    """Return the search preset that ``load`` uses: another kind of search replaces the stored one."""
    return "fairseq" if kinds_of(Namespace(**generation)) else str(task_cfg.get("search_preset") or "fairseq")


def _options_of_old_arch(cfg: dict[str, Any]) -> dict[str, Any]:
    """Return the model options of an old arch, that is, an arch without a dataclass.

    The model section of such an arch also contains options of other sections, which are left out.
    """
    parts = [part for section, part in cfg.items() if section not in ("task", "model")]
    known = {"data"}.union(*(vars(part) if isinstance(part, Namespace) else part or {} for part in parts))
    return {name: value for name, value in vars(cfg["model"]).items() if name not in known}


def sides_of(cfg: dict[str, Any], folder: Path) -> dict[str, str]:
    """Return the names of the source and the target side. The names are the suffixes of the dictionary files."""
    source, target = cfg.get("source_lang"), cfg.get("target_lang")
    if not (source and target) and folder.is_dir():
        source, target = data_utils.infer_language_pair(str(folder))
    if not (source and target):
        raise UserError(
            f"neither the checkpoint nor the files in {folder} tell the two sides of the data: give the data directory "
            "of the training with --data."
        )
    return {"source_lang": source, "target_lang": target}


def _dictionary_files(cfg: dict[str, Any], folder: Path, state: dict[str, Any], checkpoint: str) -> list[Path]:
    """Return the dictionary files of both sides.

    Refuse dictionaries that differ from the dictionaries of the training.
    """
    sides = [cfg["source_lang"], cfg["target_lang"]]
    paths = [folder / f"dict.{side}.txt" for side in dict.fromkeys(sides)]
    if not folder.is_dir():
        where = "" if folder.is_absolute() else ", a path relative to the folder in which the training was started"
        raise UserError(
            f"there is no directory {folder}, the data of the training of {checkpoint}{where}: give the directory of "
            "the dictionaries with --data."
        )
    for path in paths:
        if not path.is_file():
            raise UserError(f"{folder} has no {path.name}: give the directory of the dictionaries with --data.")
    trained = (state.get("task_state") or {}).get("dictionaries") or {}
    loaded = {side: dictionaries.load_dictionary(str(folder / f"dict.{side}.txt")) for side in sides}
    dictionaries.check(trained, loaded, checkpoint, str(folder))
    return paths


def read_model(path: str | Path) -> dict[str, Any]:
    """Return the content of a checkpoint of fairseq-train, or of an exported model.

    Raises:
        UserError: if the file is neither a checkpoint nor an exported model, is damaged, or would run code.
    """
    return read_export(path) if is_export(path) else read_checkpoint(path)


def _with_ordered_sides(task_state: dict[str, Any] | None, cfg: dict[str, Any]) -> dict[str, Any] | None:
    """Return a task's state in which the source is the first dictionary, because ``config.json`` sorts all names."""
    described = (task_state or {}).get("dictionaries")
    sides = [cfg.get("source_lang"), cfg.get("target_lang")]
    if task_state is None or not isinstance(described, dict) or {*described} != {*sides}:
        return task_state
    return {**task_state, "dictionaries": {side: described[side] for side in sides}}


def read_exported_text(path: str | Path) -> Text | None:
    """Return the steps that turn text into an exported model's tokens, or ``None`` if they are not known.

    Raise ``UserError`` for damaged files.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    if not os.path.lexists(folder / TEXT):
        return None
    check_file(folder / TEXT, _ADVICE)
    try:
        settings = settings_of(read_json(folder / TEXT), folder / TEXT)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise Damaged(f"{folder / TEXT} is damaged, or was not written by wean-export: {_ADVICE}.") from error
    text = Text(settings, folder)
    for file in [*text.files, *(folder / name for name in [EXAMPLE] if (folder / name).is_file())]:
        check_file(file, _ADVICE)
    text.prepare("")
    return text


def _check_header(weights: Path) -> None:
    """Compare the tensor sizes in the header of the weights file with the size of the file.

    This check refuses a sparse file before the whole file is read.
    """
    if defect := archive.defect(weights):
        raise Damaged(f"{weights} {defect}: {_ADVICE}.")
    if is_utf8(weights):
        safe_open(weights, "pt")


def _complete_manifest(weights: Path) -> Manifest:
    """Return the checksums of the folder of a weights file. Log a warning if no checksums are recorded.

    Raise ``Damaged`` if a listed file is missing, or a file that is read is not listed.
    """
    folder = weights.parent
    manifest = Manifest(folder)
    if not manifest.digests:
        steps = "" if (folder / TEXT).exists() else f" Without {TEXT} its input must be tokens between spaces."
        logger.warning(
            f"{folder} has no checksums in {CHECKSUMS}, so missing and changed files are not noticed: copy the whole "
            f"folder again.{steps}"
        )
    for name in manifest.digests:
        # A folder from an unknown origin may list any names, and a name with a directory would point outside the
        # folder.
        if Path(name).name != name or not (folder / name).is_file():
            raise Damaged(f"{folder} has lost {name}, which is in its {CHECKSUMS}: {_ADVICE}.")
    unread = {CHECKSUMS, CARD, NOTE, *_foreign_dictionaries(folder)}
    for path in sorted(folder.iterdir()) if manifest.digests else ():
        is_read = path.name == weights.name or (path.name not in unread and _WRITTEN.fullmatch(path.name))
        if is_read and path.name not in manifest.digests:
            raise Damaged(f"{path} is not in {manifest.path}: move it elsewhere, or {_ADVICE}.")
    return manifest


def read_export(path: str | Path) -> dict[str, Any]:
    """Read an exported folder as if it were a checkpoint of fairseq-train without optimiser state.

    Raises:
        Damaged: if a file has changed, or contains values that ``export`` does not write.
        UserError: if the folder does not exist.
    """
    weights = Path(path) / WEIGHTS if Path(path).is_dir() else Path(path)
    config_file = weights.with_name(CONFIG)
    for file in (weights, config_file):
        if not file.is_file():
            raise UserError(f"there is no {file}: name a directory that wean-export wrote.")
    manifest = _complete_manifest(weights)
    try:
        # Check the sizes first, because a sparse file occupies only a few bytes, but can claim to be larger than the
        # memory. The weights are checked against the sizes in their header.
        _check_header(weights)
        for name in manifest.digests:
            if name != weights.name:
                check_size(weights.parent / name)
            check_file(weights.parent / name, _ADVICE, manifest=manifest)
        config = read_json(config_file, _LARGEST_CONFIG)
        # True equals 1 in Python, so the type of the format number is checked, too.
        if type(config["format"]) is not int or config["format"] != EXPORT_FORMAT:
            raise UserError(
                f"{config_file} has the format {config['format']!r}, and this version of wean_fairseq reads "
                f"{EXPORT_FORMAT}: use the version that wrote it, or export the model again."
            )
        model = load_file(weights) if is_utf8(weights) else load(read_regular(weights, -1))
        # If several parameters share a tensor, the file contains it only once, so the other names are added here.
        model |= {name: model[kept] for name, kept in config["same_as"].items()}
        cfg = checked_options(config_file, config["cfg"], dict)
        cfg["task"]["data"] = str(weights.parent)
        if "arch" in cfg["model"]:  # an old arch, which has no dataclass
            cfg["model"] = Namespace(**cfg["model"], data=str(weights.parent))
        state = {
            "args": None,
            "cfg": cfg,
            "model": model,
            "optimizer_history": config["optimizer_history"],
            "task_state": _with_ordered_sides(config["task_state"], cfg["task"]),
            "extra_state": {"train_iterator": {"epoch": 1}},
        }
        # From here on, the content has the form of a checkpoint of fairseq-train, and the same checks apply.
        check_members(weights.parent, state)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{weights.parent} cannot be read ({error.strerror}): export the model again.") from error
    # All files exist and match their checksums, so an error of these types means that a file has invalid content.
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{weights.parent} is damaged, or was not written by wean-export: export it again.") from error
    return state
