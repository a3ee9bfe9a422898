// What all parts of the page use.

// A new element; texts among the children stay texts, whatever they look like.
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

// The end symbol; a word that was typed or copied may be spelt like it, and is in no dictionary.
export const isEnd = (word) => word.known && word.word === "</s>";

// Of numbers; undefined where there are none.
export const mean = (numbers) => (numbers.length ? numbers.reduce((sum, number) => sum + number) / numbers.length : undefined);

// Shares below a hundredth keep a digit: a word that is hardly possible is not impossible.
export const percent = (share) => `${share > 0 && share < 0.01 ? (100 * share).toPrecision(1) : Math.round(100 * share)}%`;
