"""Test libraries that only some options need."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.optional import hide_broken_torchaudio, import_optional


def test_torchaudio_that_cannot_be_loaded_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library transformers looks for torchaudio with `find_spec`, which must find nothing if it is broken."""
    monkeypatch.setitem(sys.modules, "torchaudio", None)  # the real module is restored after the test
    for folder, code in (("good", ""), ("broken", "raise OSError('undefined symbol')")):
        del sys.modules["torchaudio"]
        (tmp_path / folder / "torchaudio").mkdir(parents=True)
        (tmp_path / folder / "torchaudio" / "__init__.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path / folder)
        hide_broken_torchaudio()
        assert (importlib.util.find_spec("torchaudio") is None) == (folder == "broken")


def test_transformers_imports_its_sequence_to_sequence_models() -> None:
    """A torchaudio built for CUDA made this import fail with a torch without CUDA (scripts/setup.sh)."""
    pytest.importorskip("transformers")
    code = "from transformers import BartForConditionalGeneration, T5ForConditionalGeneration"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("code", ["b'\\xff'.decode()", "int('agg')"])
def test_wrong_settings_of_a_library_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """matplotlib reads MPLBACKEND, and matplotlibrc in the current folder, when it is imported."""
    (tmp_path / "reads_settings.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "reads_settings", raising=False)
    with pytest.raises(UserError, match=r"reads_settings cannot be imported \(.*\): correct its"):
        import_optional("reads_settings")
