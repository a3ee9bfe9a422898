"""``wean-inspect``: serve the page for one or more checkpoints. Only this computer can open it."""

import argparse
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..checkpoints.export import check_unused
from ..console import (
    check_name,
    command,
    command_parser,
    configure_logging,
    print_message,
    print_text,
    split_names,
    whole_number,
)
from ..errors import UserError
from ..generation import load
from ..optional import LazyModule, import_optional
from ..storage.search import SEARCH_PRESETS
from .decoding import System, decode
from .jobs import Jobs
from .question import Question

uvicorn = LazyModule("uvicorn")
HOST = "127.0.0.1"
_EXTRA = ("starlette", "uvicorn")
_EPILOG = """examples:
  wean-inspect WEAN=model/
  wean-inspect copy=A/checkpoint_best.pt plain=B/checkpoint_best.pt --data A/bin B/bin

Open the printed address in a browser; Ctrl-C stops the server. --data, --text and --bert take one value for all
checkpoints, or one for each in the same order; - = none. The server listens on 127.0.0.1 only. From another computer,
use ssh -L 8000:127.0.0.1:8000 HOST.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    description = "Open a local web page to try a model and see attention, copying and neighbours for each word."
    parser = command_parser("wean-inspect", description, _EPILOG)
    add = parser.add_argument
    add("checkpoints", nargs="+", metavar="NAME=MODEL", help="label and path of a model folder or a checkpoint")
    add("--data", nargs="+", metavar="DIR", help="data directory of a checkpoint's training (default: where it was)")
    text = "output folder of a preprocess/ script (default: recorded in the data)"
    add("--text", nargs="+", metavar="DIR", help=text)
    port = "port on 127.0.0.1; 0 = a free one (default: %(default)s)"
    add("--port", type=whole_number(0, 65535), default=8000, help=port)
    add("--search-preset", choices=SEARCH_PRESETS, help="search preset (default: saved with the model)")
    add("--bert", nargs="+", metavar="DIR", help="new path of the BERT model used in training; - = unchanged")
    return parser


def load_systems(args: argparse.Namespace) -> list[System]:
    """Load all checkpoints. Raise ``UserError`` if this fails, or if the arguments contradict each other."""
    named = split_names(args.checkpoints, "", "MODEL")
    for name, _ in named:
        check_name(name, "model")
    folders, texts, berts = (
        _broadcast(getattr(args, option) or ["-"], len(named), f"--{option}") for option in ("data", "text", "bert")
    )
    for (_, path), folder, text in zip(named, folders, texts, strict=True):
        check_unused(path, data=folder, text=text)
    systems = []
    for (name, path), folder, text, bert in zip(named, folders, texts, berts, strict=True):
        print_message("wean-inspect", f"loading {name} ({path})")
        options = {"search_preset": args.search_preset, "bert": bert}
        systems.append(System(name, load(path, folder, text=text, device="cpu", **options)))
    return systems


def _broadcast(values: list[str], number: int, option: str) -> list[str | None]:
    """Return one value per checkpoint. A single value applies to all checkpoints, and ``-`` means no value."""
    if len(values) not in (1, number):
        raise UserError(f"{option} takes one value for all or one for each of the {number}, and has {len(values)}.")
    by_checkpoint = values * number if len(values) == 1 else values
    return [None if value == "-" else value for value in by_checkpoint]


def worker(systems: Sequence[System]) -> Callable[[Question, Callable[[int], None]], list[dict[str, Any]]]:
    """Return a function that decodes a question with the requested systems and reports its progress."""
    systems_by_name = {system.name: system for system in systems}

    def work(question: Question, count: Callable[[int], None]) -> list[dict[str, Any]]:
        results = []
        for name in question.systems:
            try:
                results.append(decode(systems_by_name[name], question))
            except UserError as error:  # a second system may be able to read the text
                results.append({"system": name, "error": str(error)})
            count(len(results))
        return results

    return work


def open_port(port: int) -> socket.socket:
    """Return a socket that listens on localhost only. Raise ``UserError`` if the port cannot be opened."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise UserError(f"port {port} cannot be opened ({error.strerror}): give another one with --port.") from error


def serve(args: argparse.Namespace) -> None:
    """Load the checkpoints, print the address of the page, and serve the page until Ctrl-C.

    Raises:
        UserError: if the server is not installed, the port is in use, a checkpoint cannot be loaded, or the arguments
            contradict each other.
    """
    for library in _EXTRA:
        import_optional(library)
    with open_port(args.port) as listener:
        systems = load_systems(args)
        print_text(f"http://{HOST}:{listener.getsockname()[1]}/\n")
        print_message("wean-inspect", "open this address in a browser; Ctrl-C ends it")
        from .server import configure, create_app  # noqa: PLC0415 - needs the extra [inspect]

        jobs = Jobs(worker(systems))
        config = configure(create_app(jobs, [system.describe() for system in systems]))
        try:
            with suppress(KeyboardInterrupt):  # Ctrl-C stops the server
                uvicorn.Server(config).run(sockets=[listener])
        finally:
            # A thread cannot be stopped while it runs torch, and Python aborts if a thread is still running at exit.
            if jobs.running:
                os._exit(0)


@command("wean-inspect")
def main(arguments: Sequence[str]) -> None:
    """Run the command line."""
    args = build_parser().parse_args(arguments)
    configure_logging("wean-inspect")
    serve(args)
