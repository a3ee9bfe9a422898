"""Test that shell scripts never evaluate text from a file, by finding the places where bash would run it.

In arithmetic, in an array subscript and in ``${!name}`` bash evaluates the value of a variable, where it would run the
command of ``a[$(command)]``. A variable counts as read from a file if it is assigned by ``read``, ``mapfile`` or a
substitution that reads files, or from such a variable. Only ``whole_number`` and ``wc`` return text that is safe
everywhere.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted([ROOT / ".ci" / "run", *ROOT.glob("scripts/*.sh"), *ROOT.glob("examples/**/*.sh")])

READS = r"\$\((?:<|(?:cat|head|tail|sed|awk|grep|cut|tr|jq|python|sort|tool)\b)"
OWN_FOLDER = r"\(dirname \"\$\{BASH_SOURCE\[0\]\}\"\)"
NEVER = {
    "eval": r"(?<![-\w])eval\b(?!-)",
    "let": r"(?:^|[;&|]\s*)let\s",
    "a name reference": r"\b(?:declare|local|typeset)\s+-\w*n\b",
    "-v on an array": r"-v\s+\"?\w+\[",
    "Python with modules of the working directory": r"(?<!/)\bpython3? -(?!P)(?:[mc])?\s(?!.*venv|.*pip )",
    "a file on the terminal, not through printable": r"^cat\s[^|>]*$",
    "an argument whose command may fail unnoticed": r"(?<!\w=)(?<!\w=\")\$\((?:tool|python|wean-\w+|fairseq-\w+)\s",
    "source of a computed file": rf"(?:^|[;&|]\s*)(?:source|\.)\s+(?!\"?\$(?:LIB|{OWN_FOLDER})/)",
}


def statements(text: str) -> list[str]:
    """Return the lines of a script without comments, with continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [re.sub(r"(^|\s)#\s.*$", "", line) for line in joined.splitlines() if not line.lstrip().startswith("#")]


def names_read(lines: list[str]) -> set[str]:
    """Return the names of the shell variables that contain text from a file."""
    found: set[str] = set()
    while True:
        size = len(found)
        for line in lines:
            read = re.search(r"\b(?:read|mapfile)\b((?:\s+-\w+(?:\s+'[^']*')?|\s+\w+)+)(.*)", line)
            if read and "<<<" not in read[2]:
                found |= set(re.findall(r"(?<![-\w])[a-z_]\w*", read[1]))
            for name, value in re.findall(r"\b(\w+)\+?=(\"?\$[({].*|\"?\$\w+.*)", line):
                carried = set(re.findall(r"\$\{?(\w+)", re.sub(r"\$\(.*", "", value))) & found
                if (re.match(rf"\"?{READS}", value) or carried) and "whole_number" not in value:
                    found.add(name)
        if len(found) == size:
            return found


def evaluated(line: str) -> list[str]:
    """Return the parts of a line in which bash evaluates the values of variables.

    The number of elements of an array, ``${#name[@]}``, is harmless.
    """
    line = re.sub(r"\$\{#[^}]*\}", "0", line)
    parts = re.findall(r"\(\((.*?)\)\)", line)
    parts += re.findall(r"\[\[(.*?-(?:eq|ne|lt|le|gt|ge)\s.*?)\]\]", line)
    parts += re.findall(r"\w\[([^\]]+)\]", re.sub(r"\[\[.*?\]\]", "", line))
    parts += re.findall(r"\$\{!(\w+)", line)
    parts += re.findall(r"\$\{\w+:([^-=?+}][^}]*)\}", line)
    parts += re.findall(r"printf -v (\S+)", line)
    return parts


def offences(text: str) -> list[str]:
    """Return the lines that evaluate text from a file or use a forbidden construct."""
    lines = statements(text)
    names = names_read(lines)
    found = [f"{what}: {line.strip()}" for line in lines for what, pattern in NEVER.items() if re.search(pattern, line)]
    for line in lines:
        for part in evaluated(line):
            if re.search(READS, part) or set(re.findall(r"[A-Za-z_]\w*", part)) & names:
                found.append(f"text from a file is evaluated: {line.strip()}")
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_scripts_evaluate_no_text_from_files(path: Path) -> None:
    assert offences(path.read_text(encoding="utf-8")) == []


SETTING_LINE = r"^#   ([A-Z]\w*(?:=[\w,]+)?(?:, [A-Z]\w*)*) "  # a setting in the comment at the top of a script
OTHER_SETTINGS = {"SETS", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"}
# A recipe sets these variables for its jobs.
OWN_PROCESSES = {"JOB", "SLOT", "RECIPE_STAGE", "SLURM_ARRAY_TASK_ID", "SLURM_CPUS_PER_TASK"}


def test_only_settings_are_read_from_the_environment() -> None:
    """A variable that may be unset must be a documented setting, be cleared by recipe.sh, or be set earlier."""
    examples = {path: path.read_text(encoding="utf-8") for path in SCRIPTS if ROOT / "examples" in path.parents}
    documented = re.findall(SETTING_LINE, "\n".join(examples.values()), re.MULTILINE)
    allowed = set(re.findall(r"[A-Z]\w+", " ".join(documented))) | OTHER_SETTINGS | OWN_PROCESSES
    allowed |= set(re.findall(r"^unset (.*)$", examples[ROOT / "examples/lib/recipe.sh"], re.MULTILINE)[0].split())
    for path, text in examples.items():
        before = ""
        for line in statements(text):
            before += f"{line}\n"
            for name in set(re.findall(r"\$\{!?([A-Za-z_]\w*)(?:\[[^]]*\])?:?[-+=?]", line)) - allowed:
                known = rf"(?:^|[\s;(]){name}=|\b(?:for|local|read|declare) [^;]*\b{name}\b"
                assert re.search(known, before, re.MULTILINE), f"{path}: {line.strip()}"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_lists_are_no_patterns_of_files(path: Path) -> None:
    """Bash replaces a `*` in an unquoted variable by file names, unless noglob is set, which recipe.sh does."""
    text = path.read_text(encoding="utf-8")
    unquoted = re.search(r"for \w+ in (?:[^;\n]* )?\$\{?!?[A-Za-z]|^\s*need_\w+ (?:.* )?\$", text, re.MULTILINE)
    is_sourced = "set -euo pipefail" not in text  # such a script is sourced after recipe.sh
    has_noglob = is_sourced or "set -o noglob" in text or "lib/recipe.sh" in text
    assert not unquoted or has_noglob
    pattern = re.search(r"for \w+ in [^;\n]*[*?][^;\n]*;", re.sub(r"\$\{[^}{]*\}", "", text))
    assert not pattern or not has_noglob, "noglob makes this pattern of files a plain text"


@pytest.mark.parametrize("name", ["SYSTEMS", "SEEDS", "RATES", "RATES_x", "DROPOUTS"])
@pytest.mark.parametrize("value", ["*", "fil?", "[f]ile", "x" * 100_000, "\x1b[2J"])
def test_a_list_is_not_expanded(tmp_path: Path, name: str, value: str) -> None:
    """A message has at most 4,000 characters of the value, and no file name of the folder."""
    (tmp_path / "file").touch()
    script = 'set -euo pipefail; source "$1/examples/lib/recipe.sh"; need_systems a b'
    environment = {"PATH": os.environ["PATH"], "RECIPE": "x", "GPUS": "0", "SYSTEMS": "a", "OMP_NUM_THREADS": "1"}
    environment |= {name: value, "RUN": "run"}
    line = ["bash", "-c", script, "bash", ROOT]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("x: error: ")
    assert done.stderr.count("\n") == 1
    assert value.replace("\x1b", "")[:3900] in done.stderr
    assert len(done.stderr) <= 4001
    assert not {"file", "\x1b"} & set(re.split(r"[ ,.]|(\x1b)", done.stderr))


@pytest.mark.parametrize(
    ("systems", "message"),
    [("  ", "SYSTEMS has only spaces; choose from a b."), ("a b a", "SYSTEMS names a twice: name each system once.")],
)
def test_every_system_is_named_once(tmp_path: Path, systems: str, message: str) -> None:
    """The scores of a system that is named twice were refused after the trainings."""
    script = 'set -euo pipefail; source "$1/examples/lib/recipe.sh"; need_systems a b'
    environment = {"PATH": os.environ["PATH"], "RECIPE": "x", "GPUS": "0", "SYSTEMS": systems, "OMP_NUM_THREADS": "1"}
    line = ["bash", "-c", script, "bash", ROOT]
    done = subprocess.run(
        line, env=environment | {"RUN": "run"}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, f"x: error: {message}\n")


@pytest.mark.parametrize(
    "script",
    [
        'done=$(<"$folder/.trained")\nif ((${done:-$EPOCHS} >= EPOCHS)); then :; fi',
        'epochs=$(cat "$file")\n[[ $epochs -ge 3 ]]',
        '(($(<"$file") > 3))',
        'echo "$(($(head -n 1 "$file") + 1))"',
        'IFS= read -r number <"$file"\necho "${list[number]}"',
        'while read -r name value; do\n  echo "${!name}"\ndone <"$RUN/settings"',
        'mapfile -t lines <"$file"\nfirst=$lines\nprintf -v "$first" x',
        'length=$(awk \'{ print $1 }\' "$file")\necho "${text:length}"',
        'eval "$(<settings)"',
        'source "$RUN/settings"',
        '. "$RUN/settings"',
        "[[ -v options[$system] ]]",
        "local -n target=$name",
        "let n+=1",
        "python -m wean_fairseq.training.state",
        "python - <<'PYTHON'",
        'cat "$RUN/report.txt"',
    ],
)
def test_planted_places_are_found(script: str) -> None:
    assert offences(script)


@pytest.mark.parametrize(
    "script",
    [
        'pairs=$(wc -l <"$file")\n((pairs < 5000))',
        'IFS= read -r epochs <"$file"\nepochs=$(whole_number "$epochs")\n[[ $epochs == 3 ]]',
        'source "$LIB/training.sh"',
        'read -r limit width <<<"5000 64"\n((limit > 3))',
        'recorded=$(<"$file")\n[[ $recorded == "$asked" ]]',
    ],
)
def test_safe_uses_are_not_reported(script: str) -> None:
    assert offences(script) == []


def test_commands_import_no_module_of_the_working_directory() -> None:
    """Without -P, ``python -m`` would run a file such as re.py in the working directory."""
    for folder in ("wean_fairseq", "preprocess"):
        for path in (ROOT / folder).rglob("*.py"):
            for start in re.findall(r"sys\.executable,[^\]]*?\"-[mc]\"", path.read_text(encoding="utf-8")):
                assert '"-P"' in start, path


@pytest.mark.parametrize("given", [{}, {"POSIXLY_CORRECT": "1"}])
@pytest.mark.parametrize("command", ['say "$text"', 'die "$text"', 'fail work "$log"'])
def test_recipes_print_no_control_characters(tmp_path: Path, command: str, given: dict[str, str]) -> None:
    """Names of files and lines of logs may contain escape sequences that a terminal would obey."""
    odd = "\x1b\x07\x7f\x85\x9b\u061c\u200e\u200f\u2028\u202e\u2066\u2069"
    single = b"\x9b\xc2\x9b\x80\x9f"  # C1 characters of Latin-1, which are also bytes of 雛 and 😛
    log = tmp_path / f"log{odd}"
    log.write_bytes(f"title é–…雛😛{odd}]0;".encode() + single + b"x\n")
    script = f'RECIPE=x log=$2 text=$(<"$2") && source "$1" && {command}'
    checks = ROOT / "examples" / "lib" / "checks.sh"
    line = ["bash", "-c", script, "bash", checks, log]
    done = subprocess.run(line, env={**os.environ, **given}, capture_output=True, text=True, check=False)
    assert "title é–…雛😛]0;x\n" in done.stdout + done.stderr
    assert not set(done.stdout + done.stderr) & set(odd)


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("SEARCH_FLAGS", "--beam 3 --results-path out", "--results-path"),  # the outputs were missing in the log
        ("SEARCH_FLAGS", "--results-p=out", "--results-path"),  # argparse completes a prefix
        ("SEARCH_FLAGS", "-s de", "-s"),
        ("SEARCH_FLAGS", "--quiet", "--quiet"),
        ("TRAIN_FLAGS", "--lr 0.1 --seed 7", "--seed"),
        ("TRAIN_FLAGS", "--no-save", "--no-save"),
        ("SIZES", "--arch lstm", "--arch"),
        ("FSET_SIZES", "--save-dir=x", "--save-dir"),
        ("GENERATE", "--train 9 --output /tmp", "--output"),
    ],
)
def test_options_that_a_recipe_sets_are_refused(tmp_path: Path, name: str, value: str, option: str) -> None:
    done = source(tmp_path, **{name: value})
    word = next(word for word in value.split() if word.startswith(option[:9]))
    reason = f"the recipe sets {option} itself or cannot run with it"
    expected = f"x: error: {name} has {word}, but {reason}: leave it out.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRAIN_FLAGS", "--no-save-optimizer-state --tf32 --lr 0.1 --clip-norm -1"),
        ("SEARCH_FLAGS", "--search-preset cdnpg-sampling --unkpen -5 --path-like --"),
    ],
)
def test_other_options_are_taken(tmp_path: Path, name: str, value: str) -> None:
    done = source(tmp_path, **{name: value})
    assert (done.returncode, done.stderr) == (0, "")


def source(folder: Path, **variables: str) -> subprocess.CompletedProcess:
    """Source the common part of the recipes."""
    environment = {"PATH": os.environ["PATH"], "RECIPE": "x", "GPUS": "0", "OMP_NUM_THREADS": "1", "RUN": "run"}
    line = ["bash", "-c", 'set -euo pipefail; source "$1/examples/lib/recipe.sh"', "bash", ROOT]
    return subprocess.run(line, env=environment | variables, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("given", ["", " ", "\t "])
def test_a_list_of_files_has_one(given: str) -> None:
    """In an earlier version, a value of only spaces gave an error without the name of the variable."""
    checks = ROOT / "examples" / "lib" / "checks.sh"
    script = 'RECIPE=x TEST=$2 && source "$1" && files_of TEST && echo "${#files[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", checks, given], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "x: error: TEST has only spaces: name one file or two.\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [(".", ". is a folder. hint"), ("/dev/null", "/dev/null is a pipe or a device, not a regular file. hint")]
    + [("pipe", "pipe is a pipe or a device, not a regular file. hint"), ("no", "there is no no. hint")],
)
def test_data_that_is_not_a_file_is_named(tmp_path: Path, name: str, expected: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    checks = ROOT / "examples" / "lib" / "checks.sh"
    line = ["bash", "-c", 'RECIPE=x && source "$1" && need_files hint "$2"', "bash", checks, name]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"x: error: {expected}\n")


@pytest.mark.parametrize("name", ["run", "run/seed1"])
def test_a_run_directory_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    """An earlier version printed the line number of a library and two more lines."""
    (tmp_path / "run" / "seed1").mkdir(parents=True)
    (tmp_path / "run" / ".run.lock").write_text("a run of wean_fairseq\n", encoding="utf-8")
    (tmp_path / name).chmod(0o555)
    # Without capabilities, the permissions also apply to root.
    as_user = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    environment = {"PATH": os.environ["PATH"], "RECIPE": "x", "GPUS": "0", "OMP_NUM_THREADS": "1", "RUN": "run"}
    line = [*as_user, "bash", "-c", 'set -euo pipefail; source "$1/examples/lib/recipe.sh"', "bash", ROOT]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    (tmp_path / name).chmod(0o755)
    expected = f"{tmp_path / name} cannot be read and written: set RUN to another directory, or change its permissions."
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"x: error: {expected}\n")


def test_a_name_with_a_line_break_is_not_two_files(tmp_path: Path) -> None:
    """The second line of such a name could be read as an option or as another file."""
    for name in ("test.tgt", "test.tgt\n--set\nx", "test.tgt2\nother"):
        (tmp_path / name).touch()
    checks = ROOT / "examples" / "lib" / "checks.sh"
    line = ["bash", "-c", 'RECIPE=x && source "$1" && files_like "$2" "test.tgt*"', "bash", checks, tmp_path]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}/test.tgt\n"


def test_a_restarter_prints_no_control_characters() -> None:
    script = ROOT / "examples" / "train_until_done.sh"
    done = subprocess.run(["bash", script, "no\x1b\x9b\u202e[2J"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no command 'no[2J'" in done.stderr


def test_a_restarter_takes_a_folder_for_no_expression(tmp_path: Path) -> None:
    """``find`` would interpret -delete as an action, and delete files of the working directory."""
    (tmp_path / "checkpoint1.pt").touch()
    script = ROOT / "examples" / "train_until_done.sh"
    line = ["bash", script, "bash", "-c", "exit 1", "x", "--save-dir", "-delete"]
    environment = {**os.environ, "TRIES": "1", "WAIT": "0"}
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "without a new checkpoint in ./-delete, now with exit status 1" in done.stderr
    assert (tmp_path / "checkpoint1.pt").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\n", "the files have different numbers of lines ({'source': 2, 'reference': 1}): give the files of one"),
        (b"\xff\n", "source, line 1: byte 0xff at position 1 is not UTF-8; convert the file to UTF-8 first."),
        # a sparse file that is larger than the limit
        (None, "source cannot be read (File too large); give a file that can be."),
    ],
)
def test_samples_of_unusable_files_are_one_sentence(tmp_path: Path, content: bytes | None, message: str) -> None:
    (tmp_path / "source").write_bytes(content or b"")
    if content is None:
        os.truncate(tmp_path / "source", 1 << 40)
    (tmp_path / "reference").write_text("a\n", encoding="utf-8")
    script = ROOT / "examples" / "lib" / "samples.py"
    line = [sys.executable, script, "--src", tmp_path / "source", "--ref", tmp_path / "reference"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
