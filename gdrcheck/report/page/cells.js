"use strict";
// The bytes of the maps. Nothing here judges: a byte is an index into the values of its map.

const OUTCOME_COLOURS = {
  failed: "#d1341f", error: "#c2379a", blocked: "#e8890c", warned: "#d9c21a",
  waived: "#8f7fd6", passed: "#2f86c4", "not judged": "#8aa9bd", skipped: "#b5b5b5",
};
const BAD = ["failed", "error", "blocked"];
// From what is worst to what is best; each is seen on white and on black.
const RAMP = ["#b3150f", "#ec6a3c", "#f2b45c", "#6fb1d8", "#1f78bd"];

// The colour of every byte of a map, as numbers of red, green and blue; byte 0 is no cell.
function colours(map) {
  if (map.what === "outcome") return [null, ...map.values.map((kind) => rgb(OUTCOME_COLOURS[kind]))];
  const least = map.values[0], most = map.values[map.values.length - 1];
  return [null, ...map.values.map((value) => {
    const share = most === least ? 1 : (value - least) / (most - least);
    return ramp(most !== least && isLatency(map) ? 1 - share : share);
  })];
}

function isLatency(map) { return map.unit === "us"; }

function ramp(share) {
  const place = Math.min(share, 0.9999) * (RAMP.length - 1), step = Math.floor(place);
  const low = rgb(RAMP[step]), high = rgb(RAMP[step + 1]);
  return low.map((one, at) => Math.round(one + (high[at] - one) * (place - step)));
}

function rgb(colour) { return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)); }

function css(colour) { return `rgb(${colour.join(" ")})`; }

// How bad a byte is: the larger, the worse. 0 for no cell.
function badness(map, byte) {
  if (!byte) return 0;
  return map.what === "outcome" || isLatency(map) ? byte : map.values.length + 1 - byte;
}

function valueText(map, byte) {
  if (!byte) return map.what === "outcome" ? "not scheduled" : "no number";
  const value = map.values[byte - 1];
  return map.unit ? `${map.rounded && !map.exact[byte - 1] ? "≈ " : ""}${value} ${map.unit}` : value;
}

// The nodes in the order in which they are shown: numbers of nodes.
function order(nodes, sort, map, cells) {
  const numbers = nodes.map((_, number) => number);
  const name = new Intl.Collator("en", { numeric: true });
  const byName = (a, b) => name.compare(nodes[a].name, nodes[b].name) || a - b;
  if (sort === "name") return numbers.sort(byName);
  if (sort === "leaf") {
    return numbers.sort((a, b) => name.compare(nodes[a].leaf || "", nodes[b].leaf || "") || byName(a, b));
  }
  if (sort === "worst") {
    const count = nodes.length, total = new Float64Array(count), seen = new Float64Array(count);
    cells.forEach((byte, at) => {
      if (!byte) return;
      for (const node of [Math.floor(at / count), at % count]) {
        total[node] += badness(map, byte); seen[node] += 1;
      }
    });
    const mean = (number) => seen[number] ? total[number] / seen[number] : -1;
    return numbers.sort((a, b) => mean(b) - mean(a) || a - b);
  }
  return numbers;
}

// The worst cells, the worst first, as numbers of cells. Of each byte no more are kept than are asked for.
function worstCells(map, cells, count) {
  const found = new Map();
  cells.forEach((byte, at) => {
    if (!byte) return;
    if (!found.has(byte)) found.set(byte, []);
    if (found.get(byte).length < count) found.get(byte).push(at);
  });
  return [...found.keys()].sort((a, b) => badness(map, b) - badness(map, a))
    .flatMap((byte) => found.get(byte)).slice(0, count);
}

// --- unpacking -------------------------------------------------------------------------------

async function unpack(text) {
  const letters = atob(text), packed = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) packed[at] = letters.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Each blob of the page is unpacked once, when it is first asked for.
class Store {
  constructor(textOf) { this.textOf = textOf; this.blobs = new Map(); this.whole = new Map(); }

  blob(number) {
    if (!this.blobs.has(number)) this.blobs.set(number, unpack(this.textOf(number)));
    return this.blobs.get(number);
  }

  // A byte for each cell of the whole map, of a column that has one for each pair.
  column(cells, number) {
    const key = `${cells} ${number}`;
    if (!this.whole.has(key)) this.whole.set(key, this.spread(cells, number));
    return this.whole.get(key);
  }

  async spread(cells, number) {
    const [present, column] = await Promise.all([this.blob(cells), this.blob(number)]);
    const found = new Uint8Array(present.length);
    let next = 0;
    for (let cell = 0; cell < present.length; cell += 1) if (present[cell]) found[cell] = column[next++];
    return found;
  }

  // What is known of one cell in one map: its byte, the outcome of its case, what was expected.
  async cell(map, at) {
    const of = async (number) => number === null ? 0 : (await this.column(map.cells, number))[at];
    const [byte, kind, wanted] = await Promise.all([of(map.bytes), of(map.kinds), of(map.expected)]);
    return { byte, kind, wanted: wanted ? map.wanted[wanted - 1] : null };
  }
}
