"use strict";
// Texts that must not be wider than their place, and counts of rows and columns.

// How many cells each row, or column, has, and how many of them are bad.
function tallies(count) {
  const seen = new Uint32Array(count), bad = new Uint32Array(count);
  return {
    add(at, loud) { seen[at] += 1; bad[at] += loud; },
    mostlyLoud() { return [...seen.keys()].filter((at) => bad[at] > 1 && 2 * bad[at] > seen[at]); },
  };
}

function clip(text, most) { const letters = [...text]; return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text; }

// ``text``, cut so that it is no wider than ``width``.
function fitted(context, text, width) {
  let letters = [...text].slice(0, 60);
  if (letters.length === [...text].length && context.measureText(text).width <= width) return text;
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > width) letters = letters.slice(0, -1);
  return `${letters.join("")}…`;
}
