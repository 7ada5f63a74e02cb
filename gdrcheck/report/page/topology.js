"use strict";
// The picture of a node: sockets, switches, GPUs, NICs and rails. All names go in as text.

const BOX = { width: 84, height: 44, gap: 10, level: 74 };

function svg(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Parts as trees: those without a part above them, each with ``below``, by socket.
function forest(parts) {
  const made = parts.map((part) => ({ ...part, below: [] }));
  const at = new Map(made.filter((part) => part.slot).map((part) => [part.slot, part]));
  const tops = [];
  for (const part of made) {
    const above = part.above === null ? undefined : at.get(part.above);
    if (above && !leadsTo(above, part, at)) above.below.push(part); else tops.push(part);
  }
  const sockets = new Map();
  for (const part of tops) {
    const key = part.slot === "" ? "no PCI slot" : numaOf(part) === null ? "socket unknown" : `NUMA node ${numaOf(part)}`;
    if (!sockets.has(key)) sockets.set(key, []);
    sockets.get(key).push(part);
  }
  return [...sockets].sort(([one], [other]) => (one < other ? -1 : 1));
}

// Facts of a broken node may tell of a circle; following it would never end.
function leadsTo(part, wanted, at) {
  for (let steps = 0; part && steps < 64; steps += 1) {
    if (part === wanted) return true;
    part = part.above === null ? null : at.get(part.above);
  }
  return Boolean(part);
}

function numaOf(part) {
  if (part.numa_node !== null) return part.numa_node;
  for (const below of part.below) if (numaOf(below) !== null) return numaOf(below);
  return null;
}

// Sets x and y of every part of a tree; returns the first free x.
function place(part, x, depth) {
  part.depth = depth;
  if (!part.below.length) {
    part.x = x;
    return x + BOX.width + BOX.gap;
  }
  let next = x;
  for (const below of part.below) next = place(below, next, depth + 1);
  part.x = (part.below[0].x + part.below[part.below.length - 1].x) / 2;
  return next;
}

function flat(parts) { return parts.flatMap((part) => [part, ...flat(part.below)]); }

// What the findings say of the parts below: "bad", "warn" or "".
function marks(node, part) {
  const names = flat([part]).map((one) => one.name).filter(Boolean);
  const said = node.findings.filter(([gpu, nic]) => names.includes(gpu) || names.includes(nic));
  return said;
}

function level(said) {
  if (said.some(([, , , kind]) => kind === "failed")) return "is-bad";
  return said.some(([, , , kind]) => kind !== "waived") ? "is-warn" : "";
}

function picture(node, topology) {
  if (topology.unknown) return null;
  const sockets = forest(topology.parts);
  if (!sockets.length) return null;
  let x = 16, deepest = 0;
  const frames = [];
  for (const [name, tops] of sockets) {
    const from = x;
    for (const top of tops) x = place(top, x, 0);
    for (const part of flat(tops)) deepest = Math.max(deepest, part.depth);
    frames.push([name, from - 8, x - BOX.gap + 8, tops]);
    x += 16;
  }
  const floor = 40 + deepest * BOX.level + BOX.height, height = floor + 80;
  const drawing = svg("svg", { viewBox: `0 0 ${x} ${height}`, class: "topology", role: "img" });
  // Small ones are not blown up; large ones are scaled down, on a narrow screen no further than can be read.
  drawing.style.minWidth = `${Math.min(x, 720)}px`; drawing.style.width = `${x * 1.1}px`;
  drawing.append(svg("title", {}, `Topology of ${node.name}: ${topology.parts.length} PCI functions, ${node.rails.length} rails`));
  const y = (part) => 40 + (part.below.length ? part.depth : deepest) * BOX.level;
  const drawn = frames.flatMap(([, , , tops]) => flat(tops));
  for (const [name, from, to] of frames) {
    drawing.append(svg("rect", { class: "socket", x: from, y: 8, width: to - from, height: height - 16, rx: 6 }));
    drawing.append(svg("text", { x: from + 8, y: 24 }, name));
  }
  for (const part of drawn) {
    for (const below of part.below) drawing.append(wire(node, part, below, y));
  }
  rails(node, drawn, y, drawing);
  for (const part of drawn) drawing.append(box(node, part, y));
  return drawing;
}

function wire(node, part, below, y) {
  const slow = below.link && below.link_max && below.link !== below.link_max;
  const said = marks(node, below).filter(([, , code]) => code.startsWith("PCI-"));
  const mark = slow ? level(said) || "is-warn" : below.below.length ? "" : level(said);
  const half = BOX.width / 2;
  const line = svg("path", {
    class: `wire ${mark}`,
    d: `M${part.x + half} ${y(part) + BOX.height} V${y(part) + BOX.height + 12} H${below.x + half} V${y(below)}`,
  });
  const words = slow ? `${below.link}, can do ${below.link_max}` : below.link || "link unknown";
  line.append(svg("title", {}, `${part.slot} to ${below.slot}: ${words}`));
  return line;
}

function box(node, part, y) {
  const said = part.below.length ? [] : marks(node, part), mark = level(said);
  const group = svg("g", {});
  group.append(svg("rect", { class: `box ${mark}`, x: part.x, y: y(part), width: BOX.width, height: BOX.height, rx: 4 }));
  const middle = part.x + BOX.width / 2;
  const text = (line, words, style) => group.append(svg("text", { x: middle, y: y(part) + line, "text-anchor": "middle", class: style }, clipped(words)));
  text(17, part.name || part.kind, mark);
  const slow = part.link && part.link_max && part.link !== part.link_max;
  text(34, part.below.length ? part.slot : part.link || part.slot, slow ? level(said) || "is-warn" : "");
  const codes = [...new Set(said.map(([, , code]) => code))].join(", ");
  const words = [part.kind, part.name, part.slot, part.note, part.link && `${part.link} of ${part.link_max}`, codes];
  group.append(svg("title", {}, words.filter(Boolean).join(", ")));
  return group;
}

function clipped(text) { return text.length > 14 ? `${text.slice(0, 13)}…` : text; }

function rails(node, drawn, y, drawing) {
  for (const rail of node.rails) {
    const ends = [rail.gpu, rail.nic].map((name) => name && drawn.find((part) => part.name === name));
    if (!ends[0] || !ends[1]) continue;
    const [one, other] = ends.map((part) => part.x + BOX.width / 2), bottom = y(ends[0]) + BOX.height;
    const said = node.findings.filter(([gpu, nic]) => gpu === rail.gpu && nic === rail.nic), mark = level(said);
    const deep = bottom + Math.min(50, 18 + Math.abs(one - other) / 8);
    drawing.append(svg("path", { class: `rail ${mark}`, d: `M${one} ${bottom} C${one} ${deep} ${other} ${deep} ${other} ${bottom}` }));
    drawing.append(svg("text", { x: (one + other) / 2, y: deep + 8, "text-anchor": "middle", class: mark }, `rail ${rail.id}${rail.distance ? ` ${rail.distance}` : ""}`));
  }
}

// What the lines of a picture mean.
function pictureLegend() {
  const room = document.createElement("p");
  room.className = "hint key";
  for (const [mark, text] of [["rail", "rail"], ["wire", "PCI link"], ["wire is-bad", "a finding that failed"], ["wire is-warn", "a warning, or a link below what it can do"]]) {
    const sample = svg("svg", { width: 28, height: 10, "aria-hidden": "true" });
    sample.append(svg("path", { class: mark, d: "M1 5 H27" }));
    const one = document.createElement("span");
    one.append(sample, ` ${text}`);
    room.append(one);
  }
  return room;
}
