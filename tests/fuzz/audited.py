"""Run tools on hostile or malformed checkpoints under an audit hook.

``warm.py`` runs this module as one of its commands.

The interpreter reports every compilation, execution, process start, connection and write to the hook, for all
functions that cause it. The hook cannot be removed, so a separate process is used.
"""

import contextlib
import copy
import functools
import io
import json
import os
import shutil
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm, generate, interactive, train, validate
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import save_file

import wean_fairseq
from tests.fuzz.hostile_options import ACTIONS, CONTAINERS, MARK, PLAIN, WITHOUT_CALLS, variants
from tests.fuzz.wrong_types import wrong_members
from wean_fairseq.checkpoints import cli as checkpoints_cli
from wean_fairseq.checkpoints import options as checkpoint_options
from wean_fairseq.errors import UserError, sentence_of
from wean_fairseq.generation import cli as generation_cli
from wean_fairseq.inspection import cli as inspection_cli
from wean_fairseq.reporting import plot_cli, report_cli

wean_fairseq.register()

LIMIT = 60  # maximum seconds for one tool and one checkpoint
STARTED = {
    *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn"),
    *("subprocess.Popen", "socket.connect", "urllib.Request", "webbrowser.open", "pickle.find_class", "marshal.load"),
    *("code.__new__", "ctypes.call_function", "builtins.input", "cpython.run_command"),
}
CHANGED = {
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.truncate",
    "os.chmod",
    "import",
}


class Watch:
    """Collects the events that the audit hook reports while it is watching."""

    def __init__(self) -> None:
        self.watching = False
        self.seen: list[str] = []
        sys.addaudithook(self._look)

    def _look(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event in STARTED or (event in CHANGED and MARK in str(given)):
            self.seen.append(f"{event} {given!r:.200}")
        elif event == "open" and MARK in str(given[0]) and _writes(given[1], given[2]):
            self.seen.append(f"open {given!r:.200}")
        # ``<unknown>`` is the file name that ast.parse uses
        elif event == "compile" and given[1] != "<unknown>" and MARK in str(given[0]):
            self.seen.append(f"compile {given!r:.200}")
        elif event == "exec" and _names(given[0]):
            self.seen.append(f"exec {given!r:.200}")

    @contextlib.contextmanager
    def on(self) -> Iterator[list[str]]:
        """Yield a list that receives the events observed in the block."""
        self.seen = []
        self.watching = True
        try:
            yield self.seen
        finally:
            self.watching = False


def _writes(mode: Any, flags: Any) -> bool:
    return any(letter in str(mode or "") for letter in "wax+") or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))


def _names(code: Any) -> bool:
    """Return True if a code object contains the mark.

    Code that Python generates for dataclasses does not contain the mark.
    """
    if not isinstance(code, CodeType):
        return False
    if code.co_filename == __file__ or code.co_filename.endswith("hostile_options.py"):
        return False
    return MARK in f"{code.co_names}{code.co_varnames}" or any(
        _names(value) or (isinstance(value, str | bytes) and MARK in str(value)) for value in code.co_consts
    )


# --- tools ----------------------------------------------------------------------------------------------------------


@functools.cache
def _configuration(parser: Callable[[], Any], *line: str) -> DictConfig:
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser(), input_args=list(line)))


TASK = ["-s", "src", "-t", "tgt", "--dataset-impl", "raw", "--cpu", "--no-progress-bar", "--batch-size", "2"]
TASK += ["--num-workers", "0"]  # a worker process would be observed as an event
TRAINING = ["--task", "paraphrase", "--arch", "wean_lstm", "--criterion", "query_embedding", "--optimizer", "adam"]
TRAINING += ["--embed-dim", "8", "--hidden-size", "8", "--lr", "0.1", "--max-update", "1"]


def _decode(tool: Any, parser: Callable[[], Any], *more: str) -> Callable[[Path, Path], int]:
    def call(path: Path, data: Path) -> int:
        cfg = copy.deepcopy(_configuration(parser, str(data), *TASK, "--path", "x", *more))
        cfg.common_eval.path = str(path)
        cfg.interactive.input = str(data / "test.src-tgt.src")
        tool.main(cfg)
        return 0

    return call


def _train(option: str) -> Callable[[Path, Path], int]:
    def call(path: Path, data: Path) -> int:
        cfg = copy.deepcopy(_configuration(options.get_training_parser, str(data), *TASK, *TRAINING, "--no-save"))
        cfg.checkpoint.save_dir = str(path.parent / "saved")
        if option == "last":
            Path(cfg.checkpoint.save_dir).mkdir(exist_ok=True)
            os.replace(path, Path(cfg.checkpoint.save_dir, "checkpoint_last.pt"))
        else:
            cfg.checkpoint[option] = str(path)
        train.main(cfg)
        return 0

    return call


def _export(path: Path, data: Path) -> int:
    return checkpoints_cli.main_export([str(path), "--output", str(path.parent / "export"), "--data", str(data)])


def _generate(path: Path, data: Path) -> int:
    """Load a model with ``wean_fairseq.load``, and rewrite a sentence."""
    files = ["--model", str(path), "--data", str(data), "--input", str(data / "text")]
    return generation_cli.main([*files, "--output", str(path.parent / "generated"), "--overwrite", "--cpu"])


def _exported(path: Path, data: Path) -> int:
    """Write an export whose ``config.json`` has the checkpoint's configuration and state, as far as JSON allows."""
    with torch.serialization.safe_globals([bytearray]):  # the loader of this package refuses it
        state = torch.load(path, weights_only=True)
    folder = path.parent / "exported"
    folder.mkdir(exist_ok=True)
    config = {name: state[name] for name in ("cfg", "optimizer_history", "task_state") if name in state}
    if state.get("args") is not None:
        config["cfg"] = state["args"]
    try:
        save_file({name: tensor.clone() for name, tensor in state["model"].items()}, folder / "model.safetensors")
        text = json.dumps({**config, "format": 1, "same_as": {}}, default=_as_json)
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # the state contains itself, or has no tensors
        raise UserError(str(error)) from error
    (folder / "config.json").write_text(text)
    return TOOLS["fairseq-generate"](folder / "model.safetensors", data)


def _as_json(value: Any) -> Any:
    if OmegaConf.is_config(value):
        return OmegaConf.to_container(value)
    if isinstance(value, Namespace):
        return vars(value)
    if torch.is_tensor(value):
        return value.tolist()
    return value.decode() if isinstance(value, bytes | bytearray) else list(value)


def _report(path: Path, data: Path) -> int:
    """Report on a run folder that another user might have created."""
    folder = path.parent / "run"
    if not folder.exists():
        (folder / "system").mkdir(parents=True)
        shutil.copytree(data, folder / "bin")  # a report shows nothing behind a link to another folder
        (folder / "system" / "train.log").write_text("")
    os.replace(path, folder / "system" / "checkpoint_best.pt")
    report_cli.main([str(folder), "--output", str(path.parent / "report")])
    said = (path.parent / "report" / "report.md").read_text(encoding="utf-8")
    for line in said.splitlines():
        # A pickle of values that contain themselves is refused before it is loaded, with advice only.
        if "is refused, and nothing in it was run" in line or "values that are in themselves: use another" in line:
            raise UserError(line)
    return 0


def _plot(figure: str, *more: str) -> Callable[[Path, Path], int]:
    def call(path: Path, data: Path) -> int:
        given = [argument.format(path=path, data=data) for argument in more]
        return plot_cli.main([figure, *given, "--output", str(path.parent / "figure")])

    return call


def _inspect(path: Path, data: Path) -> int:
    inspection_cli.load_systems(inspection_cli.build_parser().parse_args([f"A={path}", "--data", str(data)]))
    return 0


TOOLS: dict[str, Callable[[Path, Path], int]] = {
    "fairseq-generate": _decode(generate, options.get_generation_parser, "--task", "paraphrase", "--max-len-b", "5"),
    "fairseq-interactive": _decode(
        interactive, options.get_interactive_generation_parser, "--task", "paraphrase", "--buffer-size", "2"
    ),
    "fairseq-validate": _decode(validate, options.get_validation_parser, "--task", "paraphrase"),
    "fairseq-eval-lm": _decode(eval_lm, options.get_eval_lm_parser, "--task", "paraphrase"),
    "fairseq-train --restore-file": _train("restore_file"),
    "fairseq-train --finetune-from-model": _train("finetune_from_model"),
    "fairseq-train": _train("last"),
    "wean-average": lambda path, _: checkpoints_cli.main_average([str(path)] * 2 + ["--output", f"{path}.average"]),
    "wean-export": _export,
    "wean-generate": _generate,
    "an export": _exported,
    "wean-report": _report,
    "wean-plot attention": _plot("attention", "--checkpoint", "{path}", "--data", "{data}", "--text", "{data}/text"),
    "wean-plot neighbours": _plot("neighbours", "w1", "--checkpoint", "{path}", "--dict", "{data}/dict.src.txt"),
    "wean-plot layers": _plot("layers", "{path}"),
    "wean-inspect": _inspect,
}


# --- runs -----------------------------------------------------------------------------------------------------------


def _out_of_time(*_: object) -> None:
    raise TimeoutError(f"after {LIMIT} seconds")


def attempt(watch: Watch, tool: str, path: Path, data: Path) -> dict[str, Any]:
    """Run a tool on a file. Return how the tool ended, its refusal message, its output and the observed events."""
    said = io.StringIO()
    refusal = ""
    signal.alarm(LIMIT)
    try:
        with watch.on() as seen, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = TOOLS[tool](path, data)
        ended = "refused" if status == 2 else "done"
        refusal = said.getvalue() if status == 2 else ""
    except BaseException as error:  # noqa: BLE001 - every exception is reported to the test
        refusal = sentence_of(error) or ""
        ended = "refused" if refusal else f"{type(error).__name__}: {error}"
        said.write(refusal or traceback.format_exc())
    finally:
        signal.alarm(0)
    return {"ended": ended, "refusal": refusal, "said": said.getvalue()[-2000:], "seen": seen}


def control(watch: Watch) -> dict[str, list[str]]:
    """Return the events that are observed when Python's own ``eval`` evaluates the expressions."""
    found = {}
    for code in (*ACTIONS, *WITHOUT_CALLS):
        if "**" in code or "* 10" in code:  # the evaluation of these expressions would not end
            continue
        with watch.on() as seen, contextlib.suppress(Exception):
            eval(code)  # noqa: S307 - to see that it is seen
        found[code] = seen
    return found


def checkpoints(given: Namespace, state: dict[str, Any], tool: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each changed checkpoint and its content.

    Each tool gets every ``share``-th variant, so ``share`` consecutive tools together get all variants.
    """
    if given.kind == "types":
        yield from wrong_members(state, given.number, f"{given.seed} {tool}")  # every tool gets different changes
        return
    made = variants(state["cfg"], given.number, given.seed, tuple(CONTAINERS) if given.kind == "options" else PLAIN)
    for variant in made[given.tools.index(tool) % given.share :: given.share]:
        yield variant.name, {**state, "cfg": variant.cfg, "args": variant.args}


def cli_main() -> None:
    """Read the request of ``test_hostile_options.audited`` from standard input, and print the observed events."""
    given = Namespace(**json.load(sys.stdin))
    if given.kind == "unchecked options":  # this disables the check of options that fairseq evaluates
        checkpoint_options.EVALUATED.clear()
    signal.signal(signal.SIGALRM, _out_of_time)
    os.chdir(given.folder)
    state = torch.load(given.checkpoint, weights_only=True)
    watch = Watch()
    results = []
    for tool in given.tools:
        for name, content in checkpoints(given, state, tool):
            path = Path(given.folder, "hostile.pt")
            torch.save(content, path)
            results.append({"tool": tool, "variant": name, **attempt(watch, tool, path, Path(given.data))})
    marks = [str(path) for path in Path(given.folder).rglob(f"*{MARK}*")]
    print(json.dumps({"results": results, "marks": marks, "control": control(watch)}))
