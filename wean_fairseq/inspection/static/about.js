// Details of one word: its probability, attention, copying, granularities and neighbours.
import { element, isEnd, percent } from "./dom.js";

const MOST = 6; // source words listed

// Fill the panel. Return the same content as a sentence for screen readers.
export function describe(panel, about) {
  panel.replaceChildren();
  if (about === null) {
    panel.append(element("h2", { id: "about-title" }, "No word selected"), note("Select a word to see its attention, probability and neighbours."));
    return "";
  }
  const read = about.output === null;
  const where = read ? `read by ${about.system}` : `output ${about.output + 1} of ${about.system}`;
  const title = element("h2", { id: "about-title" }, element("bdi", {}, shownWord(about.word)), " ");
  title.append(element("span", { className: "small" }, where));
  const cards = read ? ofSource(about) : ofOutput(about);
  panel.append(title, element("div", { className: "cards" }, ...cards.map((card) => card.made)));
  panel.scrollTop = 0;
  return `${shownWord(about.word)}: ${cards.map((card) => card.sentence).filter((sentence) => sentence).join(", ")}`;
}

function shownWord(word) {
  return isEnd(word) ? "end" : word.word;
}

function card(title, sentence, ...content) {
  return { sentence, made: element("div", { className: "card" }, element("h3", {}, title), ...content) };
}

// Rows with a name, a bar and a number from 0 to 1.
function bars(rows, show) {
  const list = element("ul", { className: "bars" });
  for (const [name, value] of rows) {
    const fill = element("span", { className: "fill" });
    fill.style.setProperty("width", `${Math.min(100, Math.max(0, 100 * value))}%`);
    const bar = element("span", { className: "bar", ariaHidden: "true" }, fill);
    list.append(element("li", {}, element("bdi", { className: "name" }, name), bar, element("span", {}, show(value))));
  }
  return list;
}

function note(text) {
  return element("p", { className: "small" }, text);
}

function best(shares, words) {
  const found = Object.entries(shares).map(([place, share]) => [shownWord(words[place]), share]);
  return found.sort((one, other) => other[1] - one[1]).slice(0, MOST);
}

function ofOutput(about) {
  const { word, source } = about;
  const cards = [];
  if (word.probability !== null) {
    const sure = percent(word.probability);
    cards.push(card("Probability", `probability ${sure}`, element("p", { className: "big" }, sure)));
  }
  if (word.attention) {
    const rows = best(word.attention, source);
    const sentence = rows.length ? `attends to ${rows[0][0]} ${percent(rows[0][1])}` : "";
    cards.push(card("Attention", sentence, bars(rows, percent)));
  } else {
    cards.push(card("Attention", "", note("This model returns no attention.")));
  }
  if (about.copies) cards.push(copying(word, source));
  cards.push(...granularity(about), ...neighbours(about, "target"));
  return cards;
}

function copying(word, source) {
  const rows = best(word.positions ?? {}, source);
  const sentence = `copied ${percent(word.copied)}`;
  const from = rows.length && word.copied >= 0.005 ? [note("from"), bars(rows, percent)] : [];
  return card("Copied", sentence, element("p", { className: "big" }, percent(word.copied)), ...from);
}

function ofSource(about) {
  const { word } = about;
  const readers = about.outputs[0].words.map((written) => [shownWord(written), written.attention?.[about.place] ?? 0]);
  const rows = readers.sort((one, other) => other[1] - one[1]).slice(0, MOST).filter((row) => row[1] >= 0.01);
  const cards = [];
  if (!word.known) {
    const can = about.copies ? "the model can only copy it" : "the model reads an unknown word";
    cards.push(card("Not in the dictionary", "not in the dictionary", note(can)));
  }
  if (about.attends) {
    const sentence = rows.length ? `attended to most while ${rows[0][0]} is written` : "";
    const shown = rows.length ? bars(rows, percent) : note("no word of it");
    cards.push(card("Attended to by output 1", sentence, shown));
  }
  cards.push(...granularity(about), ...neighbours(about, "source"));
  return cards;
}

function granularity({ word, granular }) {
  if (!granular) return [];
  if (!word.granularity) return [card("Granularity z", "", note("No layer reads this word."))];
  const rows = Object.entries(word.granularity).map(([layer, z]) => [`layer ${layer}`, z]);
  const sentence = rows.map(([layer, z]) => `${layer} z ${z.toFixed(2)}`).join(", ");
  const list = bars(rows, (z) => z.toFixed(2));
  return [card("Granularity z", sentence, list, note("0 = template, 1 = detail"))];
}

function neighbours(about, side) {
  if (isEnd(about.word)) return [];
  const found = Object.hasOwn(about.neighbours[side], about.word.word) ? about.neighbours[side][about.word.word] : [];
  if (!found.length) return [card("Neighbours", "", note("This word has no embedding."))];
  const sentence = `nearest neighbour ${found[0][0]}`;
  return [card("Neighbours (cosine)", sentence, bars(found, (cosine) => cosine.toFixed(2)))];
}
