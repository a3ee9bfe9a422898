"""Test that literals have Python's values. Other expressions are refused, and fairseq has no other ``eval``."""

import builtins
import importlib
import re
import sys
import time
from argparse import Namespace

import pytest
from fairseq import options
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.utils import eval_bool, eval_str_dict, eval_str_list

from wean_fairseq.checkpoints.literals import LONGEST_LITERAL, read_literal
from wean_fairseq.checkpoints.options import EVALUATED
from wean_fairseq.errors import UserError

LITERALS = [
    "True", "None", "0.1", "-1e-3", "+2", "10000,50000,200000", "(0.9, 0.98)", " [1, 'two', (3.5, None)] ", "()",
    "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512, 2, 2)] * 2", "((256, 4, 1024, True, 0.15),) * 3", "2 * [1]",
    "1 + 2 * 3",
    "{'a': [1], 2: {'b': None}}", "[0] * 0", "[0] * -3", "True * 3", "'a' 'b'", "'(' ", "0x10", "1_000", "1e999",
]  # fmt: skip
# 10,000 items and lists, 100,000 characters, and a product of 10,000 binary digits.
LARGEST = [f"[{'0,' * 9_999}]", "[0] * 5000", "1" + " " * 99_999, f"{10**1505} * {10**1505}"]


@pytest.mark.parametrize("text", [*LITERALS, *LARGEST], ids=lambda text: text[:20])
def test_a_literal_has_the_value_of_python(text):
    found, expected = read_literal(text), builtins.eval(text.strip())  # noqa: S307
    assert found == expected and type(found) is type(expected)


def test_defaults_of_all_archs_of_fairseq_have_the_values_of_python():
    compared = 0
    for complete in ARCH_CONFIG_REGISTRY.values():
        arch = Namespace()
        try:
            complete(arch)
        except AttributeError:  # this arch needs options that have no default
            continue
        for name, value in vars(arch).items():
            if name in EVALUATED and isinstance(value, str):
                assert read_literal(value) == builtins.eval(value)  # noqa: S307
                compared += 1
    assert compared > 50


REFUSED = [
    "str(1)", "[x for x in (1,)]", "[x['c'] for x.__class__.__getitem__ in [print]]", "print", "().__class__", "f'{1}'",
    "f''", "lambda: 1", "lambda x=print: 1", "(x := 1)", "1 if 1 else 2", "'ab'[0]", "[*'ab']", "{**{}}", "{1, 2}",
    "b'a'", "1j", "...", "not 1", "~1", "1 < 2", "1 and 2", "1 - 2", "2 ** 3", "1 / 2", "'a' + 'b'", "'a' * 3", "1 @ 2",
    "{} | {}", "[] + ()", "-'a'", "{[]: 1}", "", "a b", "\0", "await x", "yield 1", "import os", "x = 1", "*x", "`x`",
    "{'a': print}", "{print: 1}", "(1, print)", "[print] * 2", "[1] + [print]", "-print", "[1] * print", "__debug__",
]  # fmt: skip
LARGE = [
    "9**9**9**9", "[0] * 10**9", f"[{'0,' * 10_000}]", "[0] * 5001", "[0] * 4999 + [0] * 5001", "9" * 5000,
    f"{10**1505} * {10**1506}",
    "9" * LONGEST_LITERAL, "-" * LONGEST_LITERAL,
    "[" * 5000, "1+" * 40_000 + "1", "(" + "9" * 4000 + ")*" * 20 + "1", "*".join(["9" * 4000] * 20), "not " * 20_000,
    "[[0] * 9999] * 9999 * 9999", "[[[0] * 9999] * 9999] * 9999", "[" + "[0] * 9999, " * 200 + "]",
    " " * 100_000 + "1", "lambda:" * 10_000 + "1", "{1:" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("text", [*REFUSED, *LARGE], ids=lambda text: text[:20])
def test_anything_else_is_refused_at_once(text):
    started = time.process_time()
    with pytest.raises(UserError, match=r"was expected to be a literal .*; other expressions are not evaluated"):
        read_literal(text)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(("length", "shown"), [(59, "x" * 59), (60, "x" * 60 + "..."), (99, "x" * 60 + "...")])
def test_an_error_shows_the_beginning_of_a_long_text(length, shown):
    with pytest.raises(UserError, match=f"^'{re.escape(shown)}' was expected"):
        read_literal("x" * length)


@pytest.mark.parametrize(
    "value", [True, 3, None, ["1"], b"1", bytearray(b"1"), memoryview(b"1"), compile("1", "", "eval")]
)
def test_other_types_than_text_are_a_type_error(value):
    """Test the type of the error, on which fairseq's ``eval_bool`` relies."""
    with pytest.raises(TypeError):
        read_literal(value)
    assert eval_bool(value, default=7) == 7


def test_every_module_of_fairseq_reads_literals(monkeypatch):
    monkeypatch.delitem(sys.modules, "fairseq_cli.validate", raising=False)
    assert vars(importlib.import_module("fairseq_cli.validate"))["eval"] is read_literal
    hosts = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ("fairseq", "fairseq_cli")}
    # Leave out compiled modules, which evaluate nothing, and some of which are imported later.
    modules = {name: module for name, module in hosts.items() if str(module.__file__).endswith(".py")}
    assert len(modules) > 300
    assert [name for name, module in modules.items() if vars(module).get("eval") is not read_literal] == []


def test_fairseqs_own_readers_read_literals():
    assert eval_str_list("[1, 2] * 2", int) == [1, 2, 1, 2]
    assert eval_str_list("0.5") == [0.5]
    assert eval_str_dict("{'a': 1}") == {"a": 1}
    for read in (eval_str_list, eval_str_dict, eval_bool, options.eval_bool):
        with pytest.raises(UserError):
            read("print")
