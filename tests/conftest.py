"""Fixtures for all tests, which collect the counts for docs/reliability.md."""

import gc
from pathlib import Path

import pytest

import tests.preload.quick_hydra  # noqa: F401
from tests.reliability import Reliability


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reliability-record", metavar="FILE", help="append what the tests count to FILE (new if absent)")


def _reliability(config: pytest.Config) -> Reliability:
    record = config.getoption("--reliability-record")
    # pytest-xdist passes the options on to its workers. The workers run in the same directory.
    return Reliability(None if record is None else Path(record).resolve())


@pytest.fixture(scope="session")
def reliability(pytestconfig: pytest.Config) -> Reliability:
    """Return the counter of the test run. ``reliability.count(kind, n)`` can be called in every process of the run."""
    return _reliability(pytestconfig)


def pytest_collection_finish() -> None:
    """Exclude imports and collected tests from garbage collection, which would take a third of a second each time."""
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Record the result of the whole run. Only the process that has started the workers of pytest-xdist does this."""
    if hasattr(session.config, "workerinput"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    stats = {kind: len(reporter.stats.get(kind, [])) for kind in ("passed", "failed", "error", "skipped")}
    _reliability(session.config).append({"exit": int(exitstatus), **stats})
