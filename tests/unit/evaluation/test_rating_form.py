"""Test the rating form in a real browser, where it is answered, saved and read back.

These tests run only if WEAN_BROWSER names a Chromium or Chrome.
"""

import json
import os
import re
import subprocess
from html import unescape
from pathlib import Path

import pytest

from wean_fairseq.evaluation.human import Design, make_design, read_ratings, write_sheets
from wean_fairseq.evaluation.human.design import ANSWERS, COMPARE, LIKERT
from wean_fairseq.evaluation.output_reader import SystemOutput

BROWSER = os.environ.get("WEAN_BROWSER")
pytestmark = pytest.mark.skipif(not BROWSER, reason="WEAN_BROWSER names no browser")

TEXTS = ['<b>not bold</b> & "quoted"', "苹果 , =1+1", ""]
# Two criteria that an HTML attribute or a CSV file could break.
CRITERIA = ['easy, "fluent" & <short>', "relevance|adequacy"]
# Actions of a rater, in a script that runs after the form's script. It clicks an answer to every question and presses
# the button. The page keeps the file that the browser would save.
RATER = """<script>
"use strict";
document.body.dataset.before = document.getElementById("count").textContent;
const answers = %s;
let number = 0;
for (const set of document.querySelectorAll("fieldset")) set.querySelectorAll("input")[number++ %% answers].click();
document.body.dataset.after = document.getElementById("count").textContent;
document.body.dataset.stored = Object.values(localStorage).join();
URL.createObjectURL = file => {
  const reader = new FileReader();
  reader.onload = () => { document.body.dataset.saved = JSON.stringify(reader.result); };
  reader.readAsText(file);
  return "#";
};
document.getElementById("save").click();
</script></body>"""


def show(page: Path, profile: Path) -> str:
    """Open a page and return its final content."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    line = [str(BROWSER), *options, f"--user-data-dir={profile}", "--virtual-time-budget=3000", "--dump-dom"]
    return subprocess.run([*line, page.as_uri()], capture_output=True, text=True, check=True, timeout=120).stdout


def noted(page: str, name: str) -> str:
    """Return a note that the script left on the page."""
    found = re.search(rf' data-{name}="([^"]*)"', page)
    assert found, page[:2000]
    return unescape(found.group(1))


@pytest.mark.parametrize("kind", [LIKERT, COMPARE])
def test_answers_are_counted_kept_and_saved(kind: str, tmp_path: Path) -> None:
    systems = [SystemOutput(name, [[text] for text in TEXTS], "") for name in ("X", "Y")]
    design = make_design(systems, TEXTS, CRITERIA, kind=kind, num_sentences=3, num_raters=1)
    write_sheets(design, tmp_path)
    form = tmp_path / "rater-1.html"
    text = form.read_text(encoding="utf-8")
    form.write_text(text.replace("</body>", RATER % len(ANSWERS[kind])), encoding="utf-8")
    page = show(form, tmp_path / "profile")
    items = design.orders["rater-1"]
    assert noted(page, "before") == f"0 of {len(items)} complete"
    assert noted(page, "after") == f"{len(items)} of {len(items)} complete"
    assert all(name in noted(page, "stored") for name in items)
    assert page.count("&lt;b&gt;not bold") > 0
    saved = tmp_path / "saved.csv"
    saved.write_text(json.loads(noted(page, "saved")), encoding="utf-8", newline="")
    ratings = read_ratings(Design.from_file(tmp_path / "key.json"), [saved])["rater-1"]
    given = [ratings[name][criterion] for name in items for criterion in CRITERIA]
    choice = ANSWERS[kind]
    assert given == [choice[number % len(choice)] for number in range(len(given))]
