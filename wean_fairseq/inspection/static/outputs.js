// The outputs, word by word. Every word is a button, which the mouse, Tab and the arrow keys reach.
import { describe } from "./about.js";
import { element, isEnd, mean, percent } from "./dom.js";

const area = document.getElementById("outputs-area");
const about = document.getElementById("about");
const spoken = document.getElementById("spoken");
const COPIED = 0.5; // from this probability on a word counts as copied
let results = [];
let shown = null; // the word that is looked at: {result, output (null = the source), place}
let held = false; // by a click, until Escape

export function clearResults() {
  results = [];
  area.replaceChildren();
  look(null);
}

export function showResults(found) {
  results = found;
  area.replaceChildren(legend(), element("div", { className: "systems" }, ...found.map(system)));
  look(null);
}

function legend() {
  const hints = ["Point at a word, or reach it with Tab and the arrow keys; a click or Enter holds it, Escape lets go."];
  hints.push("Scores are in base 2, as fairseq-interactive prints them; nearer to 0 is better.");
  const parts = hints.map((hint) => element("span", {}, hint));
  if (results.some((result) => result.copies)) parts.push(element("span", { className: "copied" }, "copied"));
  if (results.some((result) => result.source?.concat(...result.outputs.map((one) => one.words)).some((word) => !word.known))) {
    parts.push(element("span", { className: "unknown" }, "not in the dictionary"));
  }
  return element("p", { className: "small legend" }, ...parts);
}

function system(result, number) {
  const title = element("h2", { id: `system-${number}` }, result.system);
  const made = element("section", { className: "system" }, title);
  made.setAttribute("aria-labelledby", title.id);
  if (result.error) {
    made.append(element("p", { className: "problem" }, result.error));
    return made;
  }
  title.append(" ", element("span", { className: "small" }, result.arch));
  made.append(element("h3", {}, "Input tokens"), line(result, number, null, `input tokens of ${result.system}`));
  if (result.unknown) made.append(element("p", { className: "small" }, result.unknown));
  made.append(element("h3", {}, "Outputs"));
  const list = element("ol", { className: "outputs" });
  result.outputs.forEach((output, rank) => {
    const score = element("span", { className: "score small" }, output.score === null ? "–" : output.score.toFixed(3));
    const running = element("p", { className: "running", dir: "auto" }, output.text);
    const words = line(result, number, rank, `output ${rank + 1}, score ${score.textContent}`);
    list.append(element("li", {}, score, element("div", {}, running, words), copier(output.text, rank)));
  });
  made.append(list);
  if (result.granular) made.querySelector("h3").before(layerChoice(made));
  return made;
}

function copier(text, rank) {
  const made = element("button", { type: "button", className: "copy", ariaLabel: `Copy text of output ${rank + 1}` }, "Copy text");
  made.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      spoken.textContent = `Output ${rank + 1} is copied`;
      made.textContent = "Copied";
    } catch {
      made.textContent = "Not allowed"; // by the browser
    }
    setTimeout(() => (made.textContent = "Copy text"), 2000);
  });
  return made;
}

// The layer whose granularities colour the words of a system: one layer, the mean of all, or none.
function layerChoice(made) {
  const { result } = made.querySelector(".word").dataset;
  const { source, outputs } = results[result];
  const words = [source, ...outputs.map((output) => output.words)].flat();
  const layers = [...new Set(words.flatMap((word) => Object.keys(word.granularity ?? {})))].sort((a, b) => a - b);
  const select = element("select", { id: `layer-${result}` });
  for (const [value, text] of [["mean", "mean of the layers"], ...layers.map((layer) => [layer, `layer ${layer}`]), ["", "nothing"]]) {
    select.append(element("option", { value }, text));
  }
  const shade = () => {
    for (const word of made.querySelectorAll(".word")) {
      const { output, place } = word.dataset;
      const z = wordsOf(results[result], output === "" ? null : Number(output))[place].granularity ?? {};
      const shown = select.value === "mean" ? mean(Object.values(z)) : z[select.value];
      word.classList.toggle("grained", shown !== undefined);
      word.style.setProperty("--z", `${Math.round(100 * (shown ?? 0))}%`);
    }
  };
  select.addEventListener("change", shade);
  shade();
  const scale = [element("span", { className: "scale" }), "0 = template, 1 = detail"];
  return element("p", { className: "small grains" }, element("label", { htmlFor: select.id }, "Colour by granularity:"), select, ...scale);
}

function wordsOf(result, output) {
  return output === null ? result.source : result.outputs[output].words;
}

function line(result, number, output, label) {
  const made = element("div", { className: output === null ? "words source" : "words", dir: "auto" });
  made.setAttribute("role", "group");
  made.setAttribute("aria-label", label);
  wordsOf(result, output).forEach((word, place) => made.append(button(word, number, output, place)));
  return made;
}

function button(word, number, output, place) {
  const piece = word.word.endsWith("@@");
  const text = isEnd(word) ? "end" : piece ? word.word.slice(0, -2) : word.word;
  const made = element("button", { type: "button", className: "word", tabIndex: place ? -1 : 0 });
  made.append(element("span", { className: "text" }, text));
  if (output === null) made.append(element("span", { className: "share", ariaHidden: "true" }));
  if (isEnd(word)) made.classList.add("end");
  if (piece) made.classList.add("goes-on");
  if (!word.known) made.classList.add("unknown");
  if (word.copied >= COPIED && !isEnd(word)) made.classList.add("copied");
  Object.assign(made.dataset, { result: number, output: output === null ? "" : output, place });
  return made;
}

function at(target) {
  const made = target instanceof Element ? target.closest(".word") : null;
  if (!made || !area.contains(made)) return null;
  const { result, output, place } = made.dataset;
  return { result: Number(result), output: output === "" ? null : Number(output), place: Number(place), button: made };
}

// Show the details of a word, and mark the words of the other side that belong to it.
function look(word) {
  if (shown?.button === word?.button && word !== null) return;
  shown = word;
  for (const made of area.querySelectorAll(".word")) {
    made.classList.remove("looked-at", "attended", "origin");
    made.style.removeProperty("--share");
    const share = made.querySelector(".share");
    if (share) share.textContent = "";
  }
  about.hidden = !results.length;
  about.classList.toggle("empty", word === null);
  if (word === null) {
    held = false;
    describe(about, null);
    return;
  }
  word.button.classList.add("looked-at");
  const result = results[word.result];
  if (word.output === null) showReaders(result, word);
  else showSources(result, word);
  spoken.textContent = describe(about, { ...word, ...result, word: wordsOf(result, word.output)[word.place] });
}

function mark(result, output, place, share, origin) {
  const made = area.querySelector(`.word[data-result="${result}"][data-output="${output ?? ""}"][data-place="${place}"]`);
  if (share > 0) {
    made.classList.add("attended");
    made.style.setProperty("--share", `${Math.round(10 + 80 * share)}%`);
    const text = made.querySelector(".share");
    if (text && share >= 0.01) text.textContent = percent(share);
  }
  made.classList.toggle("origin", origin >= 0.05);
}

function showSources(result, { result: number, output, place }) {
  const word = result.outputs[output].words[place];
  result.source.forEach((_, source) => {
    const origin = (word.copied ?? 0) * (word.positions?.[source] ?? 0);
    mark(number, null, source, word.attention?.[source] ?? 0, origin);
  });
}

function showReaders(result, { result: number, place }) {
  result.outputs.forEach((output, rank) => {
    output.words.forEach((word, written) => {
      const origin = (word.copied ?? 0) * (word.positions?.[place] ?? 0);
      mark(number, rank, written, word.attention?.[place] ?? 0, origin);
    });
  });
}

function move(word, key) {
  const group = word.button.parentElement;
  const lines = [...group.closest(".system").querySelectorAll(".words")];
  const words = [...group.children];
  if (getComputedStyle(group).direction === "rtl") key = { ArrowLeft: "ArrowRight", ArrowRight: "ArrowLeft" }[key] ?? key;
  const beside = (step) => lines[lines.indexOf(group) + step]?.children;
  const near = (others) => others?.[Math.min(word.place, others.length - 1)];
  const next = {
    ArrowLeft: () => words[word.place - 1],
    ArrowRight: () => words[word.place + 1],
    Home: () => words[0],
    End: () => words.at(-1),
    ArrowUp: () => near(beside(-1)),
    ArrowDown: () => near(beside(1)),
  }[key];
  const target = next?.();
  if (target) target.focus();
  return Boolean(next);
}

// Show a chosen word, and keep it visible although the panel grows.
function show(word) {
  look(word);
  word.button.scrollIntoView({ block: "nearest" });
}

area.addEventListener("mouseover", (event) => {
  const word = at(event.target);
  if (word && !held) look(word);
});
area.addEventListener("focusin", (event) => {
  const word = at(event.target);
  if (!word) return;
  for (const other of word.button.parentElement.children) other.tabIndex = other === word.button ? 0 : -1;
  held = false;
  show(word);
});
area.addEventListener("click", (event) => {
  const word = at(event.target);
  if (!word) return;
  show(word);
  held = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") look(null);
  const word = at(event.target);
  if (word && !event.altKey && !event.ctrlKey && !event.metaKey && move(word, event.key)) event.preventDefault();
});
