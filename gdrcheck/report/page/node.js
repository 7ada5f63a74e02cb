"use strict";
// Small makers of elements, and what is told of one node. All names go in as text.

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function link(text, href) {
  const made = element("a", text);
  made.href = href;
  return made;
}

// On a narrow screen each row is a card, whose cells say their titles.
function table(titles, rows, caption) {
  const head = titles.map((title) => { const made = element("th", title); made.scope = "col"; return made; });
  const body = rows.map((row) => element("tr", "", ...row.map((content, at) => {
    const cell = element(at ? "td" : "th", "", content);
    if (at) cell.dataset.label = titles[at]; else cell.scope = "row";
    return cell;
  })));
  const made = element("table", "", element("thead", "", element("tr", "", ...head)), element("tbody", "", ...body));
  made.className = "cards";
  if (caption) made.prepend(element("caption", caption));
  const frame = element("div", "", made);
  frame.className = "scroll";
  return frame;
}

function folded(title, ...content) { return element("details", "", element("summary", title), ...content); }

function showNode(facts, node, room) {
  const topology = facts.topologies[node.topology], drawing = picture({ ...node, rails: facts.alike[node.rails] }, topology);
  const rails = facts.alike[node.rails], versions = facts.alike[node.versions];
  room.replaceChildren(element("h3", `${node.name}${node.leaf ? `, leaf ${node.leaf}` : ""}`));
  room.append(element("p", `State: ${node.state}${node.reason ? `: ${node.reason}` : ""}. Profile: ${node.profile}.`));
  const codes = new Set(node.findings.map(([, , code]) => code));
  if (codes.size) {
    room.append(element("p", "Findings: ", ...[...codes].flatMap((code) => [link(code, `#code=${code}`), " "])));
  }
  const frame = element("div", "", drawing || element("p", `No picture: ${topology.unknown || "no PCI functions are known"}.`));
  frame.className = "scroll";
  if (drawing) { frame.tabIndex = 0; frame.setAttribute("role", "group"); frame.setAttribute("aria-label", "Topology"); }
  room.append(frame);
  if (drawing) room.append(pictureLegend());
  if (rails.length) room.append(table(["Rail", "GPU", "NIC", "Distance", "Slots"], rails.map((rail) => [
    `rail ${rail.id}`, rail.gpu || "none", rail.nic, rail.distance || "unknown",
    [rail.gpu_slot, rail.nic_slot].filter(Boolean).join(", "),
  ])));
  if (topology.parts.length) room.append(folded("Parts of the picture as a table", partsTable(node, topology)));
  if (node.troubles.length) {
    const list = element("ul", "", ...node.troubles.map((text) => element("li", text)));
    room.append(folded(`Cases that failed or were not measured, the first ${node.troubles.length}`, list));
  }
  room.append(folded("Versions", table(["What", "Version"], Object.entries(versions))));
  room.hidden = false;
  room.scrollIntoView();
  room.focus({ preventScroll: true });
}

function partsTable(node, topology) {
  return table(["Part", "Slot", "Below", "NUMA node", "Link", "Can do", "Told", "Findings"], topology.parts.map((part) => [
    part.name || part.kind, part.slot, part.above || "", part.numa_node === null ? "" : String(part.numa_node),
    part.link, part.link_max, part.note,
    [...new Set(marks(node, { ...part, below: [] }).map(([, , code]) => code))].join(", "),
  ]));
}
