"""Fixtures of the tests of the evaluation."""

from pathlib import Path

import pytest


@pytest.fixture
def punkt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Install a small model of NLTK's sentence splitter. It knows one abbreviation and needs no download."""
    data = pytest.importorskip("nltk.data")
    folder = tmp_path / "nltk_data" / "tokenizers" / "punkt_tab" / "english"
    folder.mkdir(parents=True)
    (folder / "abbrev_types.txt").write_text("approx\n", encoding="utf-8")
    for name in ("collocations.tab", "ortho_context.tab", "sent_starters.txt"):
        (folder / name).touch()
    monkeypatch.setattr(data, "path", [str(tmp_path / "nltk_data")])
