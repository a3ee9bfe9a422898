// The form, and waiting for the answer. Everything is put into the page as text, never as HTML (see outputs.js).
import { showResults, clearResults } from "./outputs.js";

const POLL = 250; // milliseconds
const get = (id) => document.getElementById(id);
const form = get("form");
let systems = [];
let limits = {};
let busy = false;

function say(problem) {
  get("problem").textContent = problem;
  get("problem").hidden = !problem;
}

async function ask(address, options = {}) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Error("wean-inspect does not answer: is it still running in its terminal?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `the server answered ${response.status}.`);
  return answer;
}

function option(select, value, text) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = text;
  select.append(made);
}

function chosen() {
  const names = [get("first").value, get("second").value].filter((name) => name);
  return [...new Set(names)].map((name) => systems.find((system) => system.name === name));
}

function fitForm() {
  const now = chosen();
  get("text-label").textContent = now.every((system) => system.topics) ? "Topics" : "Sentence";
  get("beam").placeholder = now.map((system) => system.beam).join(", ");
  get("length-choice").hidden = !now.some((system) => system.needs_length);
  get("reads").textContent = now.map((system) => `${system.name} reads ${system.text}.`).join(" ");
  const example = now.map((system) => system.example).find((text) => text) ?? "";
  get("example").textContent = example;
  get("example-line").hidden = !example;
}

function count() {
  if (!limits.characters) return; // the server has not said yet
  const length = [...get("text").value].length;
  const tooLong = length > limits.characters;
  get("count").textContent = `${length.toLocaleString("en")} of ${limits.characters.toLocaleString("en")} characters`;
  get("count").classList.toggle("too-long", tooLong);
  get("text").setAttribute("aria-invalid", String(tooLong));
}

function number(id) {
  const field = get(id);
  if (field.value.trim() === "" || !Number.isInteger(Number(field.value))) {
    throw new Error(`${field.labels[0].textContent} must be a whole number from 1 to ${limits[id]}.`);
  }
  return Number(field.value);
}

function question() {
  const wanted = { text: get("text").value, systems: chosen().map((system) => system.name) };
  if ([...wanted.text].length > limits.characters) {
    const length = [...wanted.text].length.toLocaleString("en");
    throw new Error(
      `the text has ${length} characters, and at most ${limits.characters.toLocaleString("en")} are read: shorten it.`,
    );
  }
  wanted.outputs = number("outputs");
  if (get("beam").value !== "" || get("beam").validity.badInput) wanted.beam = number("beam");
  if (!get("length-choice").hidden) wanted.length = number("length");
  return wanted;
}

// Screen readers read this aloud, so repeated texts and seconds are left out.
function tell(text, seconds = "") {
  if (get("status").textContent !== text) get("status").textContent = text;
  get("seconds").textContent = seconds;
}

function showProgress(job) {
  const bar = get("bar");
  bar.max = job.systems.length;
  if (job.state === "waiting") {
    bar.removeAttribute("value");
    tell(`waiting: ${job.ahead} before this one`);
  } else {
    if (job.done) bar.value = job.done;
    else bar.removeAttribute("value");
    const now = job.systems[Math.min(job.done, job.systems.length - 1)];
    const which = job.systems.length > 1 ? ` (${Math.min(job.done + 1, job.systems.length)} of ${job.systems.length})` : "";
    tell(`${now} decodes${which}`, `, ${job.seconds.toFixed(0)} s`);
  }
}

async function wait(id) {
  for (;;) {
    const job = await ask(`/api/jobs/${encodeURIComponent(id)}`);
    if (job.state === "failed") throw new Error(job.error);
    if (job.state === "done") return job.results;
    showProgress(job);
    await new Promise((resume) => setTimeout(resume, POLL));
  }
}

// On a small screen the outputs may be below the visible part or under a keyboard.
function bringIntoView() {
  if (matchMedia("(pointer: coarse)").matches) get("text").blur();
  const area = get("outputs-area");
  if (area.getBoundingClientRect().top > innerHeight / 2) area.scrollIntoView({ block: "start" });
}

async function decode() {
  if (busy) return;
  say("");
  try {
    const body = JSON.stringify(question());
    busy = true;
    get("decode").setAttribute("aria-disabled", "true");
    get("outputs-area").setAttribute("aria-busy", "true");
    get("bar").removeAttribute("value");
    tell("sending");
    get("spoken").textContent = ""; // so that the same sentence is news again
    get("progress").hidden = false;
    clearResults();
    const headers = { "Content-Type": "application/json" };
    const { job } = await ask("/api/jobs", { method: "POST", headers, body });
    showResults(await wait(job));
    get("spoken").textContent = "Outputs are ready";
    bringIntoView();
  } catch (error) {
    say(error.message);
  } finally {
    busy = false;
    get("decode").removeAttribute("aria-disabled");
    get("outputs-area").removeAttribute("aria-busy");
    get("progress").hidden = true;
    tell("");
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  decode();
});
get("text").addEventListener("input", count);
get("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    decode();
  }
});
get("example").addEventListener("click", () => {
  get("text").value = get("example").textContent;
  count();
  decode();
});
for (const id of ["first", "second"]) get(id).addEventListener("change", fitForm);

try {
  ({ systems, limits } = await ask("/api/systems"));
  option(get("second"), "", "nothing");
  for (const system of systems) {
    for (const id of ["first", "second"]) option(get(id), system.name, `${system.name} (${system.arch})`);
  }
  get("second-choice").hidden = systems.length < 2;
  for (const id of ["outputs", "beam", "length"]) get(id).max = limits[id];
  fitForm();
  if (!get("text").value) { // the example is selected, so that typing replaces it
    get("text").value = get("example").textContent;
    get("text").select();
  }
  count();
} catch (error) {
  say(error.message);
}
