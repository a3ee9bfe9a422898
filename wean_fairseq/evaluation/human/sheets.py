"""Writes the rating sheets: a CSV file for spreadsheets and a self-contained HTML form for browsers, per rater.

The HTML form needs no network and no server: answers are kept in the browser's local storage and saved as the same CSV
file.
"""

import csv
import html
import io
import json
from pathlib import Path

from ...errors import UserError
from ..text_files import PathLike, write_atomically
from .design import ANSWERS, LIKERT, Design, Item

#: A cell that starts like this is run as a formula by spreadsheet programs.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{rater}</title>
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
body {{ font-family: sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; }}
article {{ border: 1px solid #bbb; border-radius: 6px; padding: .5em 1em; margin: 1em 0; }}
article.done {{ border-color: #393; }}
fieldset {{ border: 0; padding: .2em 0; }} legend {{ float: left; width: 14em; }}
#bar {{ position: sticky; top: 0; background: #fff; padding: .5em 0; border-bottom: 1px solid #bbb; }}
</style></head><body data-rater="{rater}" data-criteria="{criteria}">
<h1>Rating sheet {rater}</h1><p>{instructions}</p>
<div id="bar"><span id="count"></span> <button id="save" type="button">Save answers as CSV</button></div>
<form>
{articles}
</form>
<script>
"use strict";
const form = document.querySelector("form"), rater = document.body.dataset.rater;
const criteria = JSON.parse(document.body.dataset.criteria), items = [...document.querySelectorAll("article")];
const store = ["wean-ratings", rater, ...items.map(item => item.id)].join(" "); // all files share one storage
const answer = (item, place) => (form.elements[item.id + "." + place] || {{}}).value || "";
function refresh() {{
  let done = 0;
  for (const item of items) {{
    const complete = criteria.every((_, place) => answer(item, place));
    item.classList.toggle("done", complete);
    done += complete;
  }}
  document.getElementById("count").textContent = done + " of " + items.length + " complete";
  return done;
}}
function save() {{
  if (refresh() < items.length && !confirm("Some answers are missing. Save anyway?")) return;
  const quote = text => '"' + text.replace(/"/g, '""') + '"';
  const rows = items.map(item => [rater, item.id, ...criteria.map((_, place) => answer(item, place))]);
  const text = [["rater", "item", ...criteria], ...rows].map(row => row.map(quote).join(",")).join("\\r\\n") + "\\r\\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {{type: "text/csv"}}));
  link.download = rater + ".csv";
  link.click();
}}
form.addEventListener("change", () => {{
  refresh();
  try {{ localStorage.setItem(store, JSON.stringify([...new FormData(form)])); }} catch (error) {{ /* private window */
  }}
}});
document.getElementById("save").addEventListener("click", save);
try {{
  for (const [name, value] of JSON.parse(localStorage.getItem(store) || "[]")) form.elements[name].value = value;
}} catch (error) {{ /* nothing stored */ }}
refresh();
</script></body></html>
"""


def instructions(design: Design) -> str:
    """Return the sentence above the form."""
    criteria = ", ".join(design.criteria)
    if design.kind == LIKERT:
        return f"Rate every text on {criteria} from 1 (very bad) to 5 (very good). Please answer everything."
    return f"For every pair say which text is better, A, B or tie, on {criteria}. Please answer everything."


def write_sheets(design: Design, folder: PathLike) -> list[Path]:
    """Write ``RATER.csv`` and ``RATER.html`` for every rater and ``key.json``; refuses to overwrite an earlier study.

    Returns:
        the files, the key last. The key names the systems: keep it from the raters.
    """
    key = Path(folder) / "key.json"
    sheets = {rater: [key.with_name(f"{rater}.{suffix}") for suffix in ("csv", "html")] for rater in design.raters}
    written = [path for paths in sheets.values() for path in paths]
    found = next((path for path in (key, *written) if path.exists()), None)
    if found is not None:
        raise UserError(f"{found} exists: there is a study in this folder already; choose another --out.")
    items = {item.name: item for item in design.items}
    for rater, (table, page) in sheets.items():
        ordered = [items[name] for name in design.orders[rater]]
        write_atomically(table, render_csv(design, rater, ordered))
        write_atomically(page, render_html(design, rater, ordered))
    write_atomically(key, design.to_json())
    return [*written, key]


def text_columns(design: Design) -> list[str]:
    """Return the headings over the texts."""
    return ["text"] if design.kind == LIKERT else ["text A", "text B"]


def render_csv(design: Design, rater: str, items: list[Item]) -> str:
    """Return a sheet with empty cells to fill in."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["rater", "item", "source", *text_columns(design), *design.criteria])
    for item in items:
        texts = [_harmless(text) for text in (item.source, *item.texts)]
        writer.writerow([rater, item.name, *texts, *("" for _ in design.criteria)])
    return buffer.getvalue()


def _harmless(text: str) -> str:
    """Keep a spreadsheet program from running a text as a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def render_html(design: Design, rater: str, items: list[Item]) -> str:
    """Return the form; every text is escaped."""
    return _PAGE.format(
        rater=html.escape(rater),
        criteria=html.escape(json.dumps(design.criteria)),
        instructions=html.escape(instructions(design)),
        articles="\n".join(_article(design, item) for item in items),
    )


def _article(design: Design, item: Item) -> str:
    """Return the HTML of one item."""
    parts = [f'<article id="{item.name}">']
    if item.source:
        parts.append(f"<p><b>Source:</b> {html.escape(item.source)}</p>")
    for heading, text in zip(text_columns(design), item.texts, strict=True):
        parts.append(f"<p><b>{heading.replace('text', 'Text')}:</b> {html.escape(text) or '<i>(empty)</i>'}</p>")
    for place, criterion in enumerate(design.criteria):
        buttons = " ".join(
            f'<label><input type="radio" name="{item.name}.{place}" value="{answer}"> {answer}</label>'
            for answer in ANSWERS[design.kind]
        )
        parts.append(f"<fieldset><legend>{html.escape(criterion)}</legend>{buttons}</fieldset>")
    return "\n".join([*parts, "</article>"])
