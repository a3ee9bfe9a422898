"""Common parts of the benchmarks: interleaved timing, memory of a fresh process, the machine, and output files.

Variants are timed in turn within every round of one process, so that other load on the machine affects all of them
equally. A ratio is computed within each round, and its median over the rounds is reported. CPU time counts all threads
of the process and is reliable on a busy machine. Wall time is reliable only on an idle machine.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

# Environment variables of the memory allocator that affect the time and memory of code with large arrays.
ALLOCATOR_VARIABLES = ("LD_PRELOAD", "GLIBC_TUNABLES", "THP_MEM_ALLOC_ENABLE", "MALLOC_ARENA_MAX")
# Linux's description of the processors.
CPU_INFO = Path("/proc/cpuinfo")

Phases = dict[str, float]
Step = Callable[[int], Phases]


class Timing(NamedTuple):
    """Wall seconds and CPU seconds of a step, and the CPU seconds of its phases."""

    cpu: float
    wall: float
    phases: Phases


def time_step(step: Step, index: int) -> Timing:
    """Run ``step(index)`` once."""
    cpu, wall = time.process_time(), time.perf_counter()
    phases = step(index)
    return Timing(time.process_time() - cpu, time.perf_counter() - wall, phases)


def interleave(steps: Mapping[str, Step], rounds: int, warmup: int) -> dict[str, list[Timing]]:
    """Time all ``steps`` once in every round, after ``warmup`` rounds that are not counted.

    Every second round runs them in reverse order, so that a step does not always follow the same one.
    """
    timings: dict[str, list[Timing]] = {name: [] for name in steps}
    for index in range(warmup + rounds):
        names = list(steps) if index % 2 == 0 else list(reversed(steps))
        for name in names:
            timing = time_step(steps[name], index)
            if index >= warmup:
                timings[name].append(timing)
    return timings


def summarise(timings: Mapping[str, Sequence[Timing]], peer: str) -> dict[str, dict[str, Any]]:
    """Return the medians of every variant in milliseconds, and its ratios to ``peer``."""
    summary = {}
    for name, rounds in timings.items():
        phases = {phase: _median_ms([timing.phases[phase] for timing in rounds]) for phase in rounds[0].phases}
        summary[name] = {
            "cpu_ms": _median_ms([timing.cpu for timing in rounds]),
            "wall_ms": _median_ms([timing.wall for timing in rounds]),
            "cpu_ratio": median_ratio([timing.cpu for timing in rounds], [timing.cpu for timing in timings[peer]]),
            "wall_ratio": median_ratio([timing.wall for timing in rounds], [timing.wall for timing in timings[peer]]),
            "phases_cpu_ms": phases,
            "all_cpu_ms": [round(timing.cpu * 1e3, 3) for timing in rounds],
            "all_wall_ms": [round(timing.wall * 1e3, 3) for timing in rounds],
        }
    return summary


def median_ratio(times: Sequence[float], peer_times: Sequence[float]) -> float:
    """Return the median over rounds of ``times / peer_times``."""
    return round(statistics.median(mine / other for mine, other in zip(times, peer_times, strict=True)), 4)


def _median_ms(seconds: Sequence[float]) -> float:
    return round(statistics.median(seconds) * 1e3, 3)


def resident_mib() -> float:
    """Return the memory of this process now (Linux)."""
    return _status_mib("VmRSS")


def peak_resident_mib() -> float:
    """Return the peak memory of this process so far (Linux)."""
    return _status_mib("VmHWM")


def _status_mib(name: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024


def run_child(script: Path, arguments: Sequence[str], limit_s: float | None = None) -> dict[str, Any]:
    """Run ``script`` in a fresh process. The last line of its output is parsed as JSON and returned.

    Raises:
        RuntimeError: if the process fails (the message has the last lines of its output) or takes longer than
            ``limit_s``.
    """
    command = [sys.executable, str(script), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{script.name} was ended after {limit_s:.0f} s") from None
    if result.returncode:
        raise RuntimeError(f"{script.name} {' '.join(arguments)} failed:\n" + result.stderr[-2000:])
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer


def describe_run(command: str, packages: Sequence[str]) -> dict[str, Any]:
    """Return the machine and the versions used for this measurement. Folders of the machine are not included."""
    return {
        "date": date.today().isoformat(),
        "command": command,
        "cpu": _describe_cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average_at_start": [round(load, 2) for load in os.getloadavg()],
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        "allocator": {name: Path(os.environ[name]).name for name in ALLOCATOR_VARIABLES if os.environ.get(name)},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _describe_cpu() -> str:
    """Return the name of the first processor. On Linux, family and model are added, and on x86 the AVX-512 support."""
    text = CPU_INFO.read_text(encoding="utf-8") if CPU_INFO.exists() else ""
    pairs = [line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line]
    facts = {name.strip(): value.strip() for name, value in pairs}
    parts = [facts.get("model name") or platform.processor() or "unknown"]
    if "cpu family" in facts and "model" in facts:
        parts.append(f"family {facts['cpu family']} model {facts['model']}")
    if "flags" in facts:
        parts.append("AVX-512" if "avx512f" in facts["flags"].split() else "no AVX-512")
    return parts[0] + (f" ({', '.join(parts[1:])})" if parts[1:] else "")


def run_lines(run: Mapping[str, Any]) -> list[str]:
    """Return the result of ``describe_run`` as lines of Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    load = " ".join(map(str, run.get("load_average_at_start", [])))
    allocator = ", ".join(f"{name}={value}" for name, value in run["allocator"].items()) or "default"
    return [
        f"* Machine: {run['cpu']}, {run['cores']} cores, {run['memory_gib']} GiB, {run['system']}",
        f"* Versions: {versions}; memory allocator: {allocator}",
        f"* {run['date']}{f', load average at start {load}' if load else ''}",
        f"* Command: `{run['command']}`",
    ]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a Markdown table. The first column contains text, and all others contain numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return ["| " + " | ".join(map(str, cells)) + " |" for cells in (header, rule, *rows)]


def write_as_measured(
    stem: Path,
    data: dict[str, Any],
    tables: Iterable[Mapping[str, Mapping[str, Any]]],
    report: Callable[[dict[str, Any]], list[str]],
) -> None:
    """Add each of ``tables`` to ``data`` by name.

    The report is printed, and written after each table, so that measurements are kept after an interruption.
    """
    lines = report(data)
    for measured in tables:
        for name, rows in measured.items():
            data[name] |= rows
        lines = report(data)
        write_results(stem, data, lines)
        print(f"wrote {', '.join(measured)} to {stem.with_suffix('.md')}", file=sys.stderr)
    print("\n".join(lines))


def write_results(stem: Path, data: Mapping[str, Any], lines: Sequence[str]) -> None:
    """Write ``stem.json`` and ``stem.md``."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
