"""Test the commit that logs and records name (wean_fairseq/revision.py)."""

import subprocess
from pathlib import Path

import pytest

from wean_fairseq import revision

WHO = ["-c", "user.name=a", "-c", "user.email=a@b"]


def git(*arguments: str) -> str:
    return subprocess.run(["git", *WHO, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of a package in a new repository with one commit, which does not have the file yet."""
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "-m", "first")
    path = tmp_path / "site-packages" / "revision.py"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setattr(revision, "__file__", str(path))
    return path


def test_a_package_inside_a_foreign_repository_has_no_commit(package: Path) -> None:
    """A virtual environment is often in the folder of a user's project."""
    assert revision.commit() == "unknown"
    git("add", str(package))
    git("commit", "--quiet", "-m", "second")
    assert revision.commit() == git("rev-parse", "HEAD")
    package.write_text("# changed", encoding="utf-8")
    assert revision.commit() == git("rev-parse", "HEAD") + "-dirty"


def test_variables_of_git_lead_to_no_other_repository(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git sets GIT_DIR for its hooks."""
    monkeypatch.setenv("GIT_DIR", str(Path(__file__).resolve().parents[2] / ".git"))
    assert revision.commit() == "unknown"
