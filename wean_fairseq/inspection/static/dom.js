// Functions that all parts of the page use.

// Return a new element. Children that are text are never read as HTML.
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

// The end symbol. A word that is spelt like it may also be typed or copied, but is in no dictionary.
export const isEnd = (word) => word.known && word.word === "</s>";

// Return the mean of numbers, or undefined if there are none.
export const mean = (numbers) => (numbers.length ? numbers.reduce((sum, number) => sum + number) / numbers.length : undefined);

// Shares below 1 % keep a digit, so that an unlikely word is not shown as impossible.
export const percent = (share) => `${share > 0 && share < 0.01 ? (100 * share).toPrecision(1) : Math.round(100 * share)}%`;
