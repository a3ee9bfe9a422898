"""Test wean-inspect in a real browser.

Playwright controls the system's headless Chromium, and the real command serves the page.

The tests are skipped if Chromium, Playwright or the server is missing. Other tests cover the code that needs none of
these programs.
"""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.integration.commands import ENVIRONMENT, TASK, USER_DIR, command_line, paraphrase, run, train
from wean_fairseq.errors import UserError
from wean_fairseq.generation import load
from wean_fairseq.inspection.decoding import System, decode
from wean_fairseq.inspection.question import Question

GRANULAR = ["--user-dir", USER_DIR, "--arch", "granularity_transformer", "--criterion", "model_loss", *TASK]
GRANULAR += ["--embed-dim", 16, "--ffn-dim", 24, "--attention-heads", 2, "--encoder-layers", 2, "--decoder-layers", 2]
SENTENCE = "kept1 Zyxwish said2 kept3"  # the name is not in the dictionary
EXAMPLE = "kept3 said1 kept2 said2"
HOSTILE = "<script>hurt()</script> <img/src=x/onerror=hurt()> javascript:hurt() ${hurt()} &lt;b&gt; </s> <pad> kept1"
WATCH = """
window.hurt = () => { window.hurtBy = true; };
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""
WAIT = 60_000  # in milliseconds, because other tests may use all cores


@pytest.fixture(scope="module")
def checkpoints(text_data: Path, copying: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the checkpoints of a CopyNet that has learnt the data, and of a barely trained C-DNPG."""
    folder = tmp_path_factory.mktemp("granular")
    train(text_data, folder, "--lr", 0.005, "--max-update", 4, "--no-epoch-checkpoints", model=GRANULAR)
    return {"copynet": copying, "granular": folder / "checkpoint_best.pt"}


@pytest.fixture(scope="module")
def systems(text_data: Path, checkpoints: dict[str, Path]) -> dict[str, System]:
    return {name: System(name, load(path, text_data, device="cpu")) for name, path in checkpoints.items()}


def question(text: str, **changes: Any) -> Question:
    return replace(Question(text, ("copynet",), 3, 3, 100), **changes)


def words(output: dict[str, Any]) -> list[str]:
    return [word["word"] for word in output["words"]]


# --- the page -------------------------------------------------------------------------------------------------------


def test_outputs_are_those_of_fairseq_interactive(
    text_data: Path, checkpoints: dict[str, Path], systems: dict[str, System]
):
    lines = [SENTENCE, "said1 kept5 said7", "Zyxwish Zyxwish kept2 Qwop said4"]
    said = run(
        *("fairseq-interactive", text_data, "--user-dir", USER_DIR, *TASK, "--path", checkpoints["copynet"], "--cpu"),
        *("--source-lang", "src", "--target-lang", "tgt", "--beam", 3, "--nbest", 3),
        stdin="".join(f"{line}\n" for line in lines),
    )
    expected = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", said.out, flags=re.MULTILINE)
    shown = [
        (str(number), output["score"], " ".join(words(output)[:-1]))
        for number, line in enumerate(lines)
        for output in decode(systems["copynet"], question(line))["outputs"]
    ]
    assert [(number, text) for number, _, text in shown] == [(number, text) for number, _, text in expected]
    assert [score for _, score, _ in shown] == pytest.approx([float(score) for _, score, _ in expected], abs=1e-3)


def test_a_word_that_no_training_had_is_copied_from_where_it_stood(systems: dict[str, System]):
    shown = decode(systems["copynet"], question(SENTENCE))
    assert words(shown["outputs"][0])[:-1] == paraphrase(SENTENCE).split()
    name = shown["outputs"][0]["words"][1]
    assert name["word"] == "Zyxwish"
    assert not name["known"]
    assert name["copied"] == pytest.approx(1, abs=1e-3)  # the name can only be copied
    assert max(name["positions"], key=name["positions"].get) == 1
    assert [word["known"] for word in shown["source"]] == [True, False, True, True, True]
    for output in shown["outputs"]:
        for word in output["words"]:
            assert sum(word["attention"].values()) == pytest.approx(1, abs=0.03)  # very small shares are left out
            assert 0 <= word["probability"] <= 1
    assert len(shown["neighbours"]["source"]["kept1"]) == 6
    assert "Zyxwish" not in shown["neighbours"]["source"]
    json.dumps(shown, allow_nan=False)


def test_granularities_are_those_of_the_dump(
    text_data: Path, checkpoints: dict[str, Path], systems: dict[str, System], tmp_path: Path
):
    """Test that the page shows the granularities that fairseq-interactive dumps."""
    shown = decode(systems["granular"], question("kept1 said2"))
    dump = tmp_path / "z.jsonl"
    run(
        *("fairseq-interactive", text_data, "--user-dir", USER_DIR, *TASK, "--path", checkpoints["granular"], "--cpu"),
        *("--source-lang", "src", "--target-lang", "tgt", "--beam", 3, "--granularity-dump", dump),
        stdin="kept1 said2\n",
    )
    entry = json.loads(dump.read_text(encoding="utf-8"))
    for layer, values in entry["source_granularity"].items():
        assert [word["granularity"][layer] for word in shown["source"]] == pytest.approx(values, abs=2e-4)
    # the first column is the symbol from which the decoder starts
    for layer, values in entry["output_granularity"].items():
        found = [word["granularity"][layer] for word in shown["outputs"][0]["words"][:-1]]
        assert found == pytest.approx(values[1:], abs=2e-4)
    assert entry["source_granularity"]
    assert entry["output_granularity"]
    assert len({tuple(words(output)) for output in shown["outputs"]}) == 3
    assert "granularity" not in shown["outputs"][0]["words"][-1]


def test_what_is_too_long_for_a_model_is_said(systems: dict[str, System]):
    with pytest.raises(UserError, match="the text has 600 words, and the model reads at most 511: shorten it"):
        decode(systems["granular"], question("a " * 600))


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the extra dev has it")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("there is no Chromium on PATH (Debian: apt-get install chromium), so the page is not tested in it")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=program)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the training text in the form that a script of preprocess/ writes."""
    folder = tmp_path_factory.mktemp("prepared")
    options = {"unit": "words", "unicode": "none", "specials": "keep"}
    (folder / "manifest.json").write_text(json.dumps({"script": "x", "options": options, "files": {}}))
    (folder / "valid.src").write_text(f"kept1\n{EXAMPLE}\n")
    return folder


@pytest.fixture(scope="module")
def address(text_data: Path, prepared: Path, checkpoints: dict[str, Path]) -> Iterator[str]:
    """Yield the address of the page that the real command serves. Ctrl-C must end the command with status 0."""
    pytest.importorskip("uvicorn", reason="the extra inspect is not installed")
    named = [f"{name}={path}" for name, path in checkpoints.items()]
    line = command_line("wean-inspect", *named, "--data", text_data, "--port", 0, "--text", prepared)
    with subprocess.Popen(line, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        found = command.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", found), command.stderr.read()
        yield found
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=60)
    assert command.returncode == 0
    assert "Traceback" not in said


class Watched:
    """A page in the browser that collects unexpected messages."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.said: list[str] = []
        page.set_default_timeout(WAIT)
        page.add_init_script(WATCH)
        page.on("dialog", lambda dialog: (self.said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self._look(request.url, address))
        page.goto(address)
        page.wait_for_selector("#first option", state="attached")
        # Wait for the focus, because otherwise Chromium reports that the focus was blocked.
        page.wait_for_function("document.activeElement.id === 'text'")

    def _look(self, url: str, address: str) -> None:
        if not url.startswith(address):
            self.said.append(f"request to {url}")

    def decode(self, text: str, first: str = "copynet", second: str = "", outputs: int = 3) -> None:
        self.page.select_option("#first", first)
        self.page.select_option("#second", second)
        self.page.fill("#outputs", str(outputs))
        self.page.fill("#text", text)
        self.page.press("#text", "Enter")
        self.page.wait_for_selector(".system, #problem:not([hidden])")

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    @property
    def about(self) -> str:
        return " ".join(self.page.inner_text("#about").split())

    def is_as_wide_as_its_window(self) -> bool:
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def check(self) -> None:
        """Assert that there were no errors, no injected code and no requests to other hosts."""
        assert self.said == []
        assert self.page.evaluate("[window.hurtBy === undefined, window.violations.length]") == [True, 0]
        assert self.page.locator("script").count() == 1


@pytest.fixture
def watched(browser: Any, address: str) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = Watched(context.new_page(), address)
    yield page
    context.close()


@pytest.fixture
def phone(browser: Any, address: str) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 375, "height": 740}, has_touch=True, color_scheme="dark")
    page = Watched(context.new_page(), address)
    yield page
    context.close()


def test_type_decode_and_point_at_words(watched: Watched):
    watched.decode(SENTENCE)
    outputs = watched.page.locator(".outputs li")
    assert outputs.count() == 3
    assert watched.texts(".outputs li:first-child .word .text") == [*paraphrase(SENTENCE).split(), "end"]
    assert re.fullmatch(r"-\d\.\d{3}", outputs.first.locator(".score").inner_text())
    name = outputs.first.locator(".word").nth(1)
    assert {"copied", "unknown"} <= set(name.get_attribute("class").split())
    name.hover()
    for title in ("Zyxwish output 1 of copynet", "Probability", "Attention", "Copied 100%", "Neighbours"):
        assert title in watched.about
    read = watched.page.locator(".source .word").nth(1)
    assert "origin" in read.get_attribute("class")
    assert "%" in read.locator(".share").inner_text()
    outputs.first.locator(".word").first.hover()
    assert "Neighbours (cosine)" in watched.about
    assert "Zyxwish output" not in watched.about
    read.hover()
    assert "Not in the dictionary" in watched.about
    assert "attended" in name.get_attribute("class")
    name.click()  # the click keeps the name selected
    read.hover()
    assert "Zyxwish output 1 of copynet" in watched.about
    watched.check()


def test_two_checkpoints_side_by_side(watched: Watched):
    watched.decode("kept1 said2", first="granular", second="copynet")
    assert [title.split()[0] for title in watched.texts(".system h2")] == ["granular", "copynet"]
    left, right = (box.bounding_box() for box in watched.page.locator(".system").all())
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    watched.page.locator(".system").first.locator(".source .word").first.hover()
    assert re.search(r"Granularity z layer \d [01]\.\d\d", watched.about)
    watched.page.locator(".system").nth(1).locator(".outputs .word").first.hover()
    assert "Granularity" not in watched.about
    assert "output 1 of copynet" in watched.about
    watched.check()


def test_the_first_view_says_how_text_is_read_and_has_an_example(watched: Watched):
    assert watched.page.inner_text("#reads") == "copynet reads words between spaces."
    assert watched.page.inner_text("#example") == EXAMPLE
    assert watched.page.get_attribute("#beam", "placeholder") == "5"
    assert watched.page.input_value("#text") == EXAMPLE
    watched.page.keyboard.type("said2")
    assert watched.page.input_value("#text") == "said2", "the example is selected, so that typing replaces it"
    watched.page.click("#example")
    watched.page.wait_for_selector(".system")
    assert watched.page.input_value("#text") == EXAMPLE
    assert watched.texts(".system h3") == ["Input tokens", "Outputs"]
    assert watched.texts(".outputs li:first-child .running") == [paraphrase(EXAMPLE)]
    watched.check()


def test_an_output_is_copied_as_running_text(watched: Watched):
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    watched.decode(SENTENCE)
    watched.page.locator(".copy").nth(1).click()
    # Wait for an element, because the page's Content-Security-Policy forbids conditions that Playwright evaluates in
    # the page.
    watched.page.locator(".copy", has_text="Copied").wait_for()
    assert watched.texts(".copy")[1] == "Copied"
    assert watched.page.evaluate("navigator.clipboard.readText()") == watched.texts(".running")[1]
    assert watched.page.inner_text("#spoken") == "Output 2 is copied"
    watched.check()


def test_words_are_coloured_by_granularity(watched: Watched, systems: dict[str, System]):
    """Test that words can be coloured by the mean over layers, by one layer, or not at all."""
    watched.decode("kept1 said2", first="granular")
    told = decode(systems["granular"], question("kept1 said2"))["source"][0]["granularity"]
    word = watched.page.locator(".source .word").first
    shade = "made => [made.style.getPropertyValue('--z'), getComputedStyle(made.firstChild).backgroundColor]"
    mean = sum(told.values()) / len(told)
    assert int(word.evaluate(shade)[0].removesuffix("%")) == pytest.approx(100 * mean, abs=1)
    seen = {word.evaluate(shade)[1]}
    for layer, z in told.items():
        watched.page.select_option("#layer-0", layer)
        assert int(word.evaluate(shade)[0].removesuffix("%")) == pytest.approx(100 * z, abs=1)
        seen.add(word.evaluate(shade)[1])
    assert len(seen) > 1
    watched.page.select_option("#layer-0", "")
    assert watched.page.locator(".grained").count() == 0
    watched.check()
    watched.decode("kept1 said2")
    assert watched.page.locator(".grains").count() == 0  # a CopyNet has no granularities


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (1280, 480), (375, 740)])
def test_the_panel_covers_no_output(watched: Watched, width: int, height: int):
    watched.page.set_viewport_size({"width": width, "height": height})
    watched.decode(SENTENCE, second="granular")
    watched.page.locator(".outputs .word").nth(1).click()
    main, panel = (watched.page.locator(part).bounding_box() for part in ("main", "#about"))
    assert main["y"] + main["height"] <= panel["y"] + 0.5
    assert panel["y"] + panel["height"] <= height + 0.5
    assert panel["height"] <= height / 2
    last = watched.page.locator(".copy").last
    last.click()  # the last element can be scrolled to, and is not covered by another element
    assert last.bounding_box()["y"] + last.bounding_box()["height"] <= panel["y"] + 0.5
    assert watched.is_as_wide_as_its_window()


def test_everything_by_keyboard(watched: Watched):
    press = watched.page.keyboard.press
    watched.page.keyboard.type(SENTENCE)  # the field has the focus when the page is opened
    press("Enter")
    watched.page.wait_for_selector(".system")
    for _ in range(12):
        press("Tab")
        if watched.page.evaluate("document.activeElement.className.includes('word')"):
            break
    assert "kept1 read by copynet" in watched.about
    press("ArrowDown")
    press("ArrowRight")
    assert "Zyxwish output 1 of copynet" in watched.about
    assert "copied 100%" in watched.page.inner_text("#spoken")  # this text is meant for screen readers
    press("Tab")  # Tab moves to the next line. each line and its button are two tab stops
    assert watched.page.evaluate("document.activeElement.ariaLabel") == "Copy text of output 1"
    press("Tab")
    assert "output 2 of copynet" in watched.about
    press("End")
    assert "end output 2 of copynet" in watched.about
    watched.page.set_viewport_size({"width": 1280, "height": 480})
    press("ArrowUp")
    press("ArrowDown")
    focused = watched.page.locator(".word:focus").bounding_box()
    # the focused element is not covered
    assert focused["y"] + focused["height"] <= watched.page.locator("#about").bounding_box()["y"]
    press("Escape")
    assert "No word selected" in watched.about
    watched.check()


def test_a_phone(phone: Watched):
    phone.decode(SENTENCE + " " + "endless" * 40, second="granular")
    assert phone.is_as_wide_as_its_window()
    above, below = (box.bounding_box() for box in phone.page.locator(".system").all())
    assert above["y"] + above["height"] <= below["y"]
    name = phone.page.locator(".outputs .word").nth(1)
    name.tap()
    panel = phone.page.locator("#about").bounding_box()
    assert "output 1 of copynet" in phone.about
    # the name is not covered by its description
    assert name.bounding_box()["y"] + name.bounding_box()["height"] <= panel["y"]
    assert panel["y"] + panel["height"] <= 741
    assert name.bounding_box()["height"] >= 24  # minimum target size of WCAG 2.2
    assert phone.is_as_wide_as_its_window()
    phone.check()


def test_hostile_text_is_text(watched: Watched):
    watched.decode(HOSTILE, second="granular")
    assert " ".join(watched.texts(".system:first-child .source .word .text")) == f"{HOSTILE} end"
    for word in watched.page.locator(".system:first-child .word").all():
        word.hover()
    watched.check()


@pytest.mark.parametrize("sign", ["\u202e", "\u05e9\u05dc\u05d5\u05dd", "\u0000", "\ud83d"])
def test_odd_signs_do_no_harm(watched: Watched, sign: str):
    """Test that right-to-left text, NUL and half of a surrogate pair are harmless.

    Control characters and letters can both reverse text.
    """
    written = json.dumps(f"{sign}kept1 said2")
    watched.page.evaluate(f"() => {{ document.getElementById('text').value = {written}; }}")
    watched.page.press("#text", "Enter")
    watched.page.wait_for_selector(".system")
    source = watched.texts(".source .word .text")
    assert source[-2:] == ["said2", "end"]
    assert source[0].endswith("kept1")
    assert not watched.page.locator("#problem").is_visible()
    watched.check()


def test_a_text_without_end_is_refused_in_plain_words(watched: Watched):
    watched.decode("a" * 100_000)
    assert watched.page.inner_text("#problem") == (
        "the text has 100,000 characters, and at most 2,000 are read: shorten it."
    )
    assert watched.page.locator(".system").count() == 0
    watched.decode("")
    assert watched.page.inner_text("#problem") == "there is nothing to decode yet: type a sentence, or topics."
    watched.page.fill("#beam", "5")
    watched.decode("kept1", outputs=9)
    assert watched.page.inner_text("#problem") == (
        "a beam of 5 has no 9 outputs: widen the beam, or ask for fewer outputs."
    )
    # The only messages are the browser's own log lines about responses with status 422.
    assert all("status of 422" in message for message in watched.said)


def test_progress_and_a_server_that_is_gone(watched: Watched):
    states = iter([{"state": "waiting", "ahead": 2, "done": 0}, {"state": "running", "ahead": 0, "done": 1}])
    seen = []

    def slow(route: Any) -> None:
        state = next(states, None)
        seen.append(watched.page.inner_text("#progress").strip())
        if state is None:
            route.abort()
        else:
            route.fulfill(json=state | {"systems": ["copynet", "granular"], "seconds": 7.4})

    watched.page.route("**/api/jobs/*", slow)
    watched.decode("kept1 said2", second="granular")
    assert seen == ["sending", "waiting: 2 before this one", "granular decodes (2 of 2), 7 s"]
    assert "is it still running in its terminal?" in watched.page.inner_text("#problem")
    assert not watched.page.locator("#progress").is_visible()
