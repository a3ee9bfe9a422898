"""References in the documents are valid: links and anchors, files, commands with options, variables, tests and recipes.

Every Markdown file is found automatically. Commands are parsed with the parsers of their programs. test_docs_run.py
also runs the commands that take little time. External addresses are only checked for their form.
"""

import contextlib
import re
import runpy
import shutil
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from fairseq.models import MODEL_REGISTRY

from tests import markdown
from tests.documented_commands import OPTION, PROGRAMS, SYSTEM, all_options, knows, problems, read, script_text
from tests.integration.commands import ROOT
from tests.markdown import Command
from wean_fairseq.training.defaults import ARCHS_OF

OWN_PAIRS = ROOT / "examples" / "own_pairs.sh"
FOLDERS = ("docs", "examples", "benchmarks", "preprocess", "results", ".github")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))])
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))

# Folders at the start of paths that name files of the project.
_FOLDER = "(?:examples|preprocess|benchmarks|scripts|docs|tests|wean_fairseq)"
OURS = re.compile(rf"(?<![\w/.=*{{-]){_FOLDER}/[\w./-]+[\w/](?![\w<{{*-])")

# --- links ----------------------------------------------------------------------------------------------------------


def test_documents_are_found():
    found = {str(path.relative_to(ROOT)) for path in DOCUMENTS}
    assert {"README.md", "docs/tutorial.md", "docs/troubleshooting.md", "examples/README.md"} <= found
    assert "preprocess/README.md" in found


@each_document
def test_links_resolve(path: Path):
    broken = []
    for link in markdown.links(read(path)):
        address = urlsplit(link)
        if address.scheme:
            if address.scheme not in ("https", "mailto") or not (address.netloc or address.path):
                broken.append(f"{link}: not a well-formed https address")
            continue
        file = path.parent / address.path if address.path else path
        if not file.exists() or not file.resolve().is_relative_to(ROOT):
            broken.append(f"{link}: no such file in the project")
        elif address.fragment and address.fragment not in markdown.anchors(read(file)):
            broken.append(f"{link}: no such heading there")
    assert broken == []


@each_document
def test_files_that_are_named_exist(path: Path):
    text = read(path)
    shell = [block.text for block in markdown.blocks(text) if block.language in markdown.SHELL]
    made = [block.file for block in markdown.blocks(text)]  # files that the document tells its readers to create
    named = {name for part in [*shell, *markdown.code_spans(text)] for name in OURS.findall(part)}
    assert sorted(name for name in named - set(made) if not (ROOT / name).exists()) == []


# --- commands -------------------------------------------------------------------------------------------------------


@each_document
def test_commands_in_blocks_can_be_given(path: Path):
    archs = set(re.findall(r'@register_family\("(\w+)"', read(path)))
    lines = [line for script in markdown.shell_scripts(read(path)) for line in markdown.shell_lines(script)]
    found = [problem for line in lines for problem in problems(line, whole=True, own_archs=archs)]
    assert found == [], "\n".join(found)


def spans(path: Path) -> list[tuple[str, Command]]:
    """Return the commands in the text: code spans that start with a known program and have an argument."""
    found = []
    for span in markdown.code_spans(read(path)):
        with contextlib.suppress(ValueError):  # a quotation mark is not closed, so this is not a shell command
            commands = markdown.simple_commands(span)
            first = commands[0] if commands else None
            if first and len(first.words) > 1 and (first.program in PROGRAMS or first.program.startswith("wean-")):
                found.append((span, first))
    return found


@each_document
def test_commands_in_the_text_can_be_given(path: Path):
    found = [problem for span, _ in spans(path) for problem in problems(span, whole=False)]
    assert found == [], "\n".join(found)


@each_document
def test_blocks_say_what_they_are(path: Path):
    """Test that every code block names its language, because no test would check the block otherwise."""
    assert [block.text for block in markdown.blocks(read(path)) if not block.language] == []
    indented = re.findall(r"(?:^|\n)\n {4}((?:[A-Z]+=\S+ )*(?:bash|make|python|fairseq-\w+|wean-\w+) .*)", read(path))
    assert indented == [], "commands belong into blocks that begin with ```sh"


@each_document
def test_options_in_the_text_exist(path: Path):
    commands = {span for span, _ in spans(path)}  # commands whose options are already checked
    rest = [span for span in markdown.code_spans(read(path)) if span not in commands and span.split()[0] not in SYSTEM]
    named = {name for span in rest for name in OPTION.findall(span)}
    assert sorted(named - all_options()) == []


@each_document
def test_variables_in_the_text_are_read_by_a_script(path: Path):
    files = [ROOT / "Makefile", *(ROOT / "examples").rglob("*.sh"), *(ROOT / "scripts").glob("*.sh")]
    files += [*(ROOT / "tests").rglob("*.py"), *(ROOT / "wean_fairseq").rglob("*.py")]
    everything = "\n".join(read(file) for file in files)
    written = markdown.code_spans(read(path))
    assigned = {match[1] for span in written if (match := re.match(r"([A-Z][A-Z_]{2,})=(?!\()", span))}
    assert sorted(name for name in assigned if not re.search(rf"\b{name}\b", everything)) == []


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.parent.parent.name == "examples"], ids=str)
def test_variables_in_tables_are_read_by_the_recipes_beside_them(path: Path):
    known = "".join(script_text(script) for script in path.parent.glob("*.sh"))
    rows = [row for table in markdown.tables(read(path)) if table[0][0] == "variable" for row in table[1:]]
    named = {name for row in rows for name in re.findall(r"`([A-Z][A-Z_0-9]+)`", row[0])}
    assert sorted(name for name in named if not knows(known, name)) == []


# --- what the tables promise ----------------------------------------------------------------------------------------


def recipes() -> set[str]:
    """Return the scripts in examples/ that are executed instead of sourced."""
    folder = ROOT / "examples"
    return {str(path.relative_to(folder)) for path in folder.rglob("*.sh") if read(path).startswith("#!")}


def test_every_recipe_is_listed():
    path = ROOT / "docs/recipes.md"
    linked = {(path.parent / link.split("#")[0]).resolve() for link in markdown.links(read(path))}
    assert sorted(name for name in recipes() if (ROOT / "examples" / name).resolve() not in linked) == []


def test_recipes_of_a_row_need_what_it_says():
    """Test that the command in each row of docs/recipes.md sets every variable that its recipe requires."""
    table = next(iter(markdown.tables(read(ROOT / "docs/recipes.md"))))
    commands = [markdown.simple_commands(markdown.code_spans(row[1])[0])[0] for row in table[1:]]
    assert {command.words[1].removeprefix("examples/") for command in commands} == recipes()
    for command in commands:
        script = read(ROOT / command.words[1])
        needed = [name for name in ("TURK", "PWKP") if f"${{{name}:=" in script]
        assert set(needed) <= set(command.variables), command


OWN_ARCHS = set(re.findall(r"[a-z]+(?:_[a-z]+)+|copynet", read(OWN_PAIRS).split("ARCH ")[1].split("CASE")[0]))


def test_own_pairs_trains_every_arch_that_its_head_names():
    """unit/training/test_settings.py tests the options of these archs."""
    assert len(OWN_ARCHS) > 5
    assert {arch for archs in ARCHS_OF.values() for arch in archs} >= OWN_ARCHS


def test_equations_name_functions_and_tests_that_exist():
    tests = {path.name: read(path) for path in (ROOT / "tests").rglob("test_*.py")}
    missing = []
    for file, name in re.findall(r"`([\w/]+\.py): (\w+)`", read(ROOT / "docs" / "equations.md")):
        found = [path for path in (ROOT / "wean_fairseq" / file, ROOT / file) if path.exists()]
        text = tests.get(file) or "".join(map(read, found))
        if not re.search(rf"\b{name}\b", text):
            missing.append(f"{file}: {name}")
    everything = "\n".join(tests.values())
    alone = re.findall(r"`(test_\w+)`", read(ROOT / "docs" / "equations.md"))
    missing += [name for name in alone if f"def {name}(" not in everything]
    assert missing == []


def test_the_citation_is_complete():
    """CITATION.cff has all fields that format 1.2.0 requires, and a reference for the paper of each system."""
    citation = yaml.safe_load(read(ROOT / "CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert str(citation["version"]) == re.search(r'__version__ = "(.+)"', read(ROOT / "wean_fairseq/__init__.py"))[1]
    for entry in citation["references"]:
        assert {"type", "title", "authors", "year"} <= set(entry), entry
        assert all({"family-names"} <= set(author) or {"name"} <= set(author) for author in entry["authors"])
        assert not entry["title"].endswith(".")
    names = {entry["title"] for entry in citation["references"]}
    assert len(names) == len(citation["references"])
    cited = {
        name.strip() for entry in citation["references"] for name in entry.get("notes", "").split(";")[0].split(",")
    }
    registered = {family for family, model in MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq.")}
    assert registered <= cited | {"essay_transformer"}, "every family has its paper"


def test_every_family_is_in_the_table_of_systems():
    content = tomllib.loads(read(ROOT / "docs" / "systems.toml"))
    listed = {arch for system in content["system"] for arch in system["archs"]}
    registered = {family for family, model in MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq.")}
    assert registered <= listed | {"essay_transformer"}
    assert [
        system["recipe"] for system in content["system"] if not (ROOT / "examples" / system["recipe"]).exists()
    ] == []


# --- the readers themselves -----------------------------------------------------------------------------------------

SAMPLE = """# A title: `code` (2, 3)

`a/b.py`:

```python
x = 1
```

## Twice

See [here](#twice-1), `--no-such`, [file](b.md#c) and ![picture](d.png).

## Twice

```sh
MORE=(--clip 1
  --betas '(0.9, 0.98)')
A=1 B='x y' make test   # the tests
for beam in 5 12; do
  cat <in | fairseq-train data \\
    "${MORE[@]}" 2>err >log
done
```

| x | `a\\|b` |
|---|--:|
| 1 | 2 |
"""


def test_markdown_is_read():
    first, second = markdown.blocks(SAMPLE)
    assert (first.language, first.file, first.text) == ("python", "a/b.py", "x = 1\n")
    assert first.heading == "A title: `code` (2, 3)"
    assert (second.language, second.file, second.heading) == ("sh", "", "Twice")
    assert markdown.anchors(SAMPLE) == {"a-title-code-2-3", "twice", "twice-1"}
    assert markdown.links(SAMPLE) == ["#twice-1", "b.md#c", "d.png"]
    assert markdown.code_spans(SAMPLE)[:3] == ["code", "a/b.py", "--no-such"]
    assert list(markdown.tables(SAMPLE)) == [[["x", "`a\\|b`"], ["1", "2"]]]
    (script,) = markdown.shell_scripts(SAMPLE)
    commands = [command for line in markdown.shell_lines(script) for command in markdown.simple_commands(line)]
    assert commands == [
        Command(["make", "test"], {"A": "1", "B": "x y"}),
        Command(["cat"]),
        Command(["fairseq-train", "data", "--clip", "1", "--betas", "(0.9, 0.98)"]),
    ]


def test_dots_stand_for_what_is_left_out():
    assert problems("fairseq-train DATA --save-interval-updates 1000 ...", whole=True) == []
    assert problems("fairseq-generate ... --beam 5", whole=True) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("make nothing", "no such target"),
        ("COLOUR=red bash examples/wean_lstm/quora.sh", "does not read these variables"),
        ("SYSTEMS=wean_lstm RATES_none=1 bash examples/wean_lstm/quora.sh", "does not read these variables"),
        ("bash examples/wean_lstm/none.sh", "no such script"),
        ("python preprocess/quora.py --colour red", "unknown option"),
        ("wean-evaluate --colour red", "unknown option"),
        ("wean-evaluate rerank --colour red", "unknown option"),
        ("wean-evaluate nothing", "no such subcommand"),
        ("wean-none x", "no such command"),
        ("fairseq-train data --user-dir wean_fairseq --task paraphrase --arch no_such_arch", "there is no --arch"),
        ("fairseq-generate ... --search-preset none", "invalid choice"),
        ("fairseq-train DATA ... --colour red", "unrecognized arguments"),
        ("fairseq-train data --task paraphrase --arch wean_lstm --hidden-size x", "invalid int value"),
        ("torchrun --no-python fairseq-train data --task paraphrase --lr 1", "needs --arch"),
        ("fairseq-preprocess --colour red", "unrecognized arguments"),
        ("pip install 'wean_fairseq[bert]'", "package index"),
        ("pip install '.[colour]'", "no such extra"),
        ("frobnicate", "no test knows"),
    ],
)
def test_wrong_commands_are_seen(line: str, said: str):
    found = problems(line, whole=True)
    assert len(found) == 1
    assert said in found[0], found[0]


def test_links_of_the_site_lead_to_its_pages():
    """Check the paths and links of the site.

    Pages of docs/ are at the top level, other documents keep their path, and links to other files become text.
    """
    convert = runpy.run_path(str(ROOT / "scripts" / "site_links.py"))["convert"]
    of_docs = "[r](recipes.md), [e](../examples/README.md#x), [f](../examples/nts), [`LICENSE`](../LICENSE) ![a](b.png)"
    assert convert(of_docs, "docs/install.md") == (
        "[r](recipes.md), [e](examples/README.md#x), [f](examples/nts/README.md), `LICENSE` ![a](b.png)"
    )
    of_recipe = "[help](../../docs/install.md#a), [run](nts.sh), [home](../../README.md), ![b](../../docs/images/b.png)"
    assert convert(of_recipe, "examples/nts/README.md") == (
        "[help](../../install.md#a), run (`examples/nts/nts.sh`), [home](../../index.md), ![b](../../images/b.png)"
    )
    unchanged = "[web](https://a.b/c) [here](#d)\n```sh\n[x](../LICENSE)\n```\n"
    assert convert(unchanged, "docs/install.md") == unchanged


def test_every_subpackage_has_an_api_page_in_the_navigation():
    """Test that each subpackage has a generated page, except the five in docs/api.md and docs/modules.md."""
    pages = runpy.run_path(str(ROOT / "scripts" / "site_links.py"))["api_pages"]()
    assert sorted(re.findall(r"^ +- (api/\w+\.md)$", read(ROOT / "mkdocs.yml"), flags=re.MULTILINE)) == sorted(pages)
    names = {path.parent.name for path in (ROOT / "wean_fairseq").glob("*/__init__.py")}
    assert names - {name.removeprefix("api/").removesuffix(".md") for name in pages} == {
        *("evaluation", "generation", "modules", "text", "training")
    }
    assert "::: wean_fairseq.search\n" in pages["api/search.md"]


def test_formulas_are_drawn_by_the_site_and_by_github():
    """Test formulas for GitHub, which interprets Markdown before formulas.

    Therefore a backslash in a formula escapes punctuation, and an underscore after punctuation starts emphasis.
    """
    formula = runpy.run_path(str(ROOT / "scripts" / "site_links.py"))["formula"]
    documents = [read(path) for path in sorted((ROOT / "docs").glob("*.md"))]
    formulas = [found for text in documents for found in re.findall(r"(?<!\S)\(?\$+([^$`\n]+)\$", text)]
    assert len(formulas) > 150
    unsafe = re.compile(r"\\[^a-zA-Z]|[^\w\\]_|[|*<>]|\]\(")
    assert [latex for latex in formulas if unsafe.search(latex)] == []
    assert all(formula(latex).startswith("<math") for latex in formulas)
    assert "<mi>log</mi><mspace" in formula(r"\log p")
    with pytest.raises(ValueError, match="unknown command"):
        formula(r"\nonsense x")


def test_the_site_check_names_dead_links_and_foreign_files(tmp_path: Path):
    pages = {
        "index.html": '<a id="top" href="b/c.html#here">c</a> <a href="b/">b</a> <a href="https://a.b/">out</a>',
        "b/index.html": '<a href="../none.html">x</a> <a href="../index.html#none">y</a> <script src="//cdn.x/y.js">',
        "b/c.html": '<h2 id="here">c</h2> <img src="none.png">',
    }
    for name, body in pages.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(body, encoding="utf-8")
    found = list(runpy.run_path(str(ROOT / "scripts" / "check_site.py"))["dead_links"](tmp_path))
    assert found == [
        "b/c.html links to none.png, which does not exist",
        "b/index.html loads //cdn.x/y.js from another host",
        "b/index.html links to ../none.html, which does not exist",
        "b/index.html links to ../index.html#none, but index.html has no such heading",
    ]


def test_the_site_check_names_pages_that_scroll_sideways(tmp_path: Path):
    check = runpy.run_path(str(ROOT / "scripts" / "check_site.py"))
    browser = next(filter(None, map(shutil.which, check["BROWSERS"])), None)
    if browser is None:
        pytest.skip("there is no Chromium on PATH (Debian: apt-get install chromium)")
    (tmp_path / "a.html").write_text("<body style='margin: 0'><p style='width: 1280px'>fits</p></body>")
    (tmp_path / "b.html").write_text("<body style='margin: 0'><p style='width: 1300px'>does not</p></body>")
    (found,) = check["wide_pages"](tmp_path, browser)
    assert found.startswith("b.html: html is 1300 pixels wide, 1280 fit")


def test_the_metric_of_a_user_is_scored(tmp_path, monkeypatch, capsys):
    """Test a user's metric with two outputs, of which only the first ends with the last token of a reference."""
    (block,) = [block for block in markdown.blocks(read(ROOT / "docs" / "metrics.md")) if block.file == "my_metric.py"]
    (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    (tmp_path / "a.txt").write_text("a dog barks\na cat sat\n", encoding="utf-8")
    (tmp_path / "ref.txt").write_text("the dog barks\nthe cat sits\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    own = runpy.run_path(block.file)
    try:
        assert own["main"](["--hyp", "A=a.txt", "--ref", "ref.txt", "--metric", "bleu", "same-end"]) == 0
    finally:
        del own["METRICS"]["same-end"]
    lines = capsys.readouterr().out.splitlines()
    header, scores = [line.split() for line in lines if line.startswith(("system", "A "))][:2]
    assert header == ["system", "BLEU", "same-end"]
    assert scores[0] == "A" and scores[2] == "50.00"
