"use strict";

const facts = JSON.parse(document.getElementById("facts").textContent);
const by = (id) => document.getElementById(id);
const numberOf = new Map(facts.nodes.map((node, number) => [node.name, number]));
const outcomes = facts.outcomes;
const CHOICES = ["rail", "mode", "what", "sort"];

function railText(rail) { return rail === null ? "rail unknown" : `rail ${rail}`; }

// --- the filter ------------------------------------------------------------------------------

function filter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0, all = 0;
  for (const one of document.querySelectorAll("[data-filter]")) {
    // What stands in a cause is of that cause, also where it does not say so itself.
    const cause = one.parentElement.closest("details.cause");
    const content = `${one.textContent} ${cause ? cause.dataset.code : ""}`.toLowerCase();
    const fits = words.every((word) => content.includes(word));
    one.hidden = !fits;
    all += 1; shown += fits;
  }
  by("filtered").textContent = words.length ? `${shown} of ${all} entries` : "";
}

let waiting = 0;
by("filter").addEventListener("input", (event) => {
  clearTimeout(waiting);
  waiting = setTimeout(() => filter(event.target.value), 120);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    event.preventDefault();
    by("filter").focus();
  }
});

// On paper nothing can be opened, and paper is white.
function paper(on) {
  if (on) for (const cause of document.querySelectorAll("details.cause")) cause.open = true;
  if (heat) { heat.paper = on; heat.draw(); }
}
window.addEventListener("beforeprint", () => paper(true));
window.addEventListener("afterprint", () => paper(false));

// --- the maps --------------------------------------------------------------------------------

const store = new Store((number) => by(`blob${number}`).textContent);
let heat = null, chosen = -1;

function options(select, values, text) {
  const before = select.value;
  select.replaceChildren(...values.map((value) => {
    const made = element("option", text(value));
    made.value = String(value);
    return made;
  }));
  if (values.some((value) => String(value) === before)) select.value = before;
}

// The values of ``key`` among the maps that fit, and behind each how many bad cells it has.
function offered(select, key, fits, text) {
  const found = facts.maps.filter(fits);
  const bad = (value) => found.reduce((sum, map) => sum + (map[key] === value ? map.bad : 0), 0);
  options(select, [...new Set(found.map((map) => map[key]))], (value) => `${text(value)}${bad(value) ? ` – ${bad(value)} bad` : ""}`);
}

function offerAll() {
  const ofRail = (map) => String(map.rail) === by("rail").value;
  const ofMode = (map) => ofRail(map) && map.mode === by("mode").value;
  offered(by("rail"), "rail", () => true, railText);
  offered(by("mode"), "mode", ofRail, (mode) => mode);
  offered(by("what"), "what", ofMode, (what) => what);
  return facts.maps.findIndex((map) => ofMode(map) && map.what === by("what").value);
}

// At first the map that is worth a look: the first one with the most bad cells.
function chooseWorst() {
  const most = facts.maps.reduce((best, map) => (map.bad > best.bad ? map : best), facts.maps[0]);
  for (const key of CHOICES.slice(0, 3)) { offerAll(); by(key).value = String(most[key]); }
}

async function showMap() {
  const number = offerAll(), map = facts.maps[number], sort = by("sort").value;
  chosen = number;
  const [cells, kinds] = await Promise.all([map.bytes, map.kinds].map((blob) => blob === null ? null : store.column(map.cells, blob)));
  if (chosen !== number) return;
  const loud = (cell) => { const kind = (kinds || cells)[cell]; return kind > 0 && BAD.includes(outcomes[kind - 1]); };
  heat.show(map, cells, loud, order(facts.nodes, sort, map, cells), sort === "leaf");
  const count = facts.nodes.length;
  by("heat").setAttribute("aria-label", `Heat map: ${map.what}, ${railText(map.rail)}, ${map.mode}, ${count} by ${count} nodes. Arrow keys move from cell to cell.`);
  legend(map, cells);
  worst(map, cells);
  if (by("table").open) tabled(map, cells);
}

function placeText(number, rail) {
  const told = facts.places[String(rail)], name = facts.nodes[number].name;
  const devices = told && (told.others[number] || told.usual);
  return devices ? `${name}/${devices}` : name;
}

// One line of what is told of a cell: what was measured, what was expected, and what that makes.
async function line(map, at) {
  const { byte, kind, wanted } = await store.cell(map, at);
  const size = map.size ? ` (${map.size})` : "", outcome = outcomes[kind - 1];
  const parts = [valueText(map, byte)];
  if (byte && wanted) parts.push(`expected at least ${wanted[0]} Gb/s${wanted[1] ? ` (${wanted[1]})` : ""}`);
  if (byte && map.unit && !wanted) parts.push("no expected value in the data");
  if (byte && outcome) parts.push(outcome);
  return { term: `${map.what}${size}`, text: parts.join("; "), bad: BAD.includes(map.what === "outcome" ? map.values[byte - 1] : outcome) };
}

// Of several cells that were pointed at one after the other, the last one is told.
let pointed = 0;

async function tell(source, sink) {
  const mine = pointed += 1, map = facts.maps[chosen], at = source * facts.nodes.length + sink;
  const alike = facts.maps.filter((other) => other.rail === map.rail && other.mode === map.mode);
  const lines = await Promise.all(alike.map((other) => line(other, at)));
  if (mine !== pointed) return;
  const between = ([one, other]) => (one === source && other === sink) || (one === sink && other === source);
  const codes = new Set(facts.pairs.filter(between).map(([, , code]) => code));
  const leaves = [source, sink].map((one) => facts.nodes[one].leaf).filter(Boolean);
  const told = [
    element("p", "", element("b", "", element("bdi", placeText(source, map.rail)), " → ", element("bdi", placeText(sink, map.rail)))),
    element("p", `${railText(map.rail)}, ${map.mode}${leaves.length === 2 ? `, ${leaves.join(" → ")}` : ""}`),
    element("dl", "", ...lines.flatMap(({ term, text, bad }) => {
      const value = element("dd", text);
      if (bad) value.className = "bad";
      return [element("dt", term), value];
    })),
  ];
  by("tip").replaceChildren(...told.map((one) => one.cloneNode(true)));
  if (codes.size) told.push(element("p", "Findings of this pair: ", ...[...codes].flatMap((code) => [link(code, `#code=${code}`), " "])));
  by("cell").replaceChildren(...told);
  placeTip();
}

// The tip stands beside the cell that the mouse points at, within the map.
let mouse = false;

function placeTip() {
  const tip = by("tip"), shown = mouse && heat.marked;
  tip.hidden = !shown;
  if (!shown) return;
  const [x, y] = heat.middle(...heat.marked), room = by("frame").clientWidth, reach = 14;
  const right = x + reach + tip.offsetWidth <= room;
  tip.style.left = `${right ? x + reach : Math.max(0, x - reach - tip.offsetWidth)}px`;
  tip.style.top = `${Math.max(0, y + reach + tip.offsetHeight > by("frame").clientHeight ? y - reach - tip.offsetHeight : y + reach)}px`;
}

function swatch(colour, text) {
  const box = element("i");
  box.style.background = colour;
  return element("span", "", box, text);
}

function legend(map, cells) {
  const palette = colours(map), room = by("legend"), counts = new Map();
  for (const byte of cells) counts.set(byte, (counts.get(byte) || 0) + 1);
  const empty = swatch("var(--panel)", `${map.what === "outcome" ? "not scheduled" : "no number"}: ${counts.get(0) || 0} cells`);
  const stripes = heat.stripes.some((one) => one.length) ? [swatch("color-mix(in srgb, #d1341f 30%, transparent)", "more than half of a row or column is bad")] : [];
  if (map.what === "outcome") {
    const kinds = map.values.map((kind, at) => [counts.get(at + 1), swatch(css(palette[at + 1]), `${kind}: ${counts.get(at + 1)} cells`)]);
    room.replaceChildren(...kinds.filter(([count]) => count).map(([, shown]) => shown).reverse(), empty, ...stripes);
    return;
  }
  const ends = [map.values[0], map.values[map.values.length - 1]], least = isLatency(map) ? "best" : "worst", most = isLatency(map) ? "worst" : "best";
  const steps = [0, 0.25, 0.5, 0.75, 1].map((share) => css(ramp(isLatency(map) ? 1 - share : share)));
  const bar = swatch(`linear-gradient(90deg, ${steps.join(", ")})`, "");
  bar.firstChild.className = "ramp";
  const scale = element("span", `${ends[0]} ${map.unit} (${least}) `, bar, ` ${ends[1]} ${map.unit} (${most})`);
  const note = map.rounded ? [element("span", `≈: rounded by at most ${Math.ceil(map.rounded * 1000) / 10} %; data.json.gz has them exactly`)] : [];
  room.replaceChildren(scale, empty, ...stripes, ...note);
}

function cellButton(map, cells, at) {
  const count = facts.nodes.length, source = Math.floor(at / count), sink = at % count;
  const [from, to] = [source, sink].map((number) => element("bdi", facts.nodes[number].name));
  const button = element("button", "", from, " → ", to, `: ${valueText(map, cells[at])}`);
  button.type = "button";
  button.addEventListener("click", () => heat.find(source, sink));
  return button;
}

// Of outcomes those that are worth a look; of numbers the ten worst, whatever they are.
function worst(map, cells) {
  const worth = (at) => map.what !== "outcome" || !["passed", "not judged", "skipped"].includes(map.values[cells[at] - 1]);
  const found = worstCells(map, cells, 10).filter(worth).map((at) => element("li", "", cellButton(map, cells, at)));
  by("worst").replaceChildren(...(found.length ? found : [element("li", "No cell is bad.")]));
}

// The map for those who do not see it: one row a node, with its worst cell each way.
function tabled(map, cells) {
  const count = facts.nodes.length, none = "nothing";
  const row = (number) => {
    const ways = [(other) => number * count + other, (other) => other * count + number].map((cell) => {
      let most = 0, partner = -1, seen = 0, bad = 0;
      for (let other = 0; other < count; other += 1) {
        const at = cell(other), byte = cells[at];
        seen += byte > 0; bad += byte > 0 && heat.loud(at);
        if (badness(map, byte) > badness(map, most)) { most = byte; partner = other; }
      }
      if (!seen) return none;
      return `${seen} cells, ${bad} bad; worst: ${valueText(map, most)}, ${facts.nodes[partner].name}`;
    });
    return [link(facts.nodes[number].name, `#node=${encodeURIComponent(facts.nodes[number].name)}`), facts.nodes[number].leaf || "", ...ways];
  };
  const title = `${map.what}, ${railText(map.rail)}, ${map.mode}`;
  by("rows").replaceChildren(table(["Node", "Leaf", "Data goes out", "Data comes in"], heat.order.map(row), title));
}

// --- deep links: #node=NAME, #code=CODE, #rail=0&mode=gpu-gpu&what=latency&sort=leaf&from=A&to=B --

function openCauses(causes) {
  for (const cause of causes) cause.open = true;
  if (!causes.length) return;
  causes[0].scrollIntoView();
  causes[0].querySelector("summary").focus({ preventScroll: true });
}

async function follow() {
  const text = location.hash.slice(1), asked = new URLSearchParams(text);
  const causes = [...document.querySelectorAll("details.cause")];
  if (asked.has("node") && numberOf.has(asked.get("node"))) showNode(facts, facts.nodes[numberOf.get(asked.get("node"))], by("node"));
  if (asked.has("code")) openCauses(causes.filter((one) => one.dataset.code === asked.get("code")));
  openCauses(causes.filter((one) => one.id && one.id === text));
  // The browser scrolled there before the map above had its height.
  if (text && by(text)) by(text).scrollIntoView();
  if (!heat || ![...CHOICES, "from"].some((key) => asked.has(key))) return;
  for (const key of CHOICES) {
    offerAll();
    if (asked.has(key) && [...by(key).options].some((one) => one.value === asked.get(key))) by(key).value = asked.get(key);
  }
  by("maps").scrollIntoView();
  await showMap();
  const ends = ["from", "to"].map((key) => numberOf.get(asked.get(key)));
  if (ends.every((one) => one !== undefined)) heat.find(...ends);
}

function choose() {
  const asked = new URLSearchParams(CHOICES.map((key) => [key, by(key).value]));
  history.replaceState(null, "", `#${asked}`);
  return showMap();
}

async function start() {
  if (facts.maps.length && typeof DecompressionStream === "undefined") {
    by("cell").textContent = "This browser is too old to show the maps: it has no DecompressionStream.";
  } else if (facts.maps.length) {
    heat = new Heat(by("heat"), facts.nodes, tell, (number) => { location.hash = `node=${encodeURIComponent(facts.nodes[number].name)}`; });
    for (const id of CHOICES) by(id).addEventListener("change", choose);
    by("larger").addEventListener("click", () => heat.scale(1.5));
    by("smaller").addEventListener("click", () => heat.scale(1 / 1.5));
    by("whole").addEventListener("click", () => heat.whole());
    by("choose").addEventListener("submit", (event) => event.preventDefault());
    by("table").addEventListener("toggle", () => by("table").open && tabled(heat.map, heat.cells));
    by("heat").addEventListener("pointermove", (event) => { mouse = event.pointerType === "mouse"; placeTip(); });
    by("heat").addEventListener("pointerleave", () => { mouse = false; placeTip(); });
    chooseWorst();
    await showMap();
    requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("first map")));
  }
  await follow();
  document.body.dataset.ready = "yes";
}

window.addEventListener("hashchange", follow);
start();
