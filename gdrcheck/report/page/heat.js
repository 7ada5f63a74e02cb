"use strict";
// The canvas of a map: names along two sides, cells, and a mark that mouse and keys move.

// With more cells than these each pixel has one anyway.
const MAX_DOTS = 300000;
const FONT = "system-ui, sans-serif", LETTERS_PX = 11, LINE_PX = 14, MAX_SIDE_PX = 680;

class Heat {
  // ``told(source, sink)`` gets numbers of nodes when the marked cell changes, ``opened`` one node's.
  constructor(canvas, nodes, told, opened) {
    this.canvas = canvas; this.nodes = nodes; this.told = told; this.opened = opened;
    this.zoom = 1; this.left = 0; this.top = 0; this.marked = null; this.paper = false;
    this.image = document.createElement("canvas");
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    canvas.addEventListener("pointermove", (event) => this.pointed(event));
    canvas.addEventListener("pointerdown", (event) => { this.grip = this.at(event); this.pointed(event); });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { this.grip = null; });
    canvas.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.keyed(event));
    canvas.addEventListener("dblclick", () => this.marked && this.opened(this.order[this.marked[0]]));
  }

  // ``loud(cell)``: is that cell bad? The marked pair stays marked, wherever the order puts it.
  show(map, cells, loud, shown, byLeaf) {
    const pair = this.marked && this.marked.map((at) => this.order[at]);
    Object.assign(this, { map, cells, loud, byLeaf, order: shown, marked: null });
    this.paint(); this.draw();
    if (pair) this.mark(shown.indexOf(pair[0]), shown.indexOf(pair[1]));
  }

  paint() {
    const count = this.order.length, palette = colours(this.map);
    this.image.width = this.image.height = count;
    const context = this.image.getContext("2d"), pixels = context.createImageData(count, count);
    const all = new Uint32Array(pixels.data.buffer);
    const whole = palette.map((one) => one ? (255 << 24 | one[2] << 16 | one[1] << 8 | one[0]) >>> 0 : 0);
    const sparse = this.cells.reduce((sum, byte) => sum + (byte > 0), 0) < MAX_DOTS;
    this.dots = [];
    const rows = tallies(count), columns = tallies(count);
    for (let row = 0; row < count; row += 1) {
      const from = this.order[row] * count;
      for (let column = 0; column < count; column += 1) {
        const cell = from + this.order[column], byte = this.cells[cell];
        if (!byte) continue;
        const loud = this.loud(cell);
        all[row * count + column] = whole[byte];
        rows.add(row, loud); columns.add(column, loud);
        if (sparse) this.dots.push([row, column, byte, loud]);
      }
    }
    context.putImageData(pixels, 0, 0);
    this.stripes = [rows.mostlyLoud(), columns.mostlyLoud()];
    this.dots.sort((a, b) => a[3] - b[3] || badness(this.map, a[2]) - badness(this.map, b[2]));
  }

  colour(name) {
    if (this.paper) return { back: "#fff", text: "#000", soft: "#444", panel: "#fff" }[name];
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  // Sizes in pixels of the screen: ``edge`` is the room for names, ``length`` that of the cells.
  measure() {
    const width = this.canvas.parentElement.clientWidth;
    const context = this.canvas.getContext("2d");
    context.font = `${LETTERS_PX}px ${FONT}`;
    const names = this.order.length > 300 ? this.nodes.slice(0, 300) : this.nodes;
    const longest = Math.max(...names.map((node) => context.measureText(clip(node.name, 22)).width));
    this.edge = Math.round(Math.min(longest + 12, width * 0.28)) + LINE_PX;
    this.length = Math.max(60, Math.min(width - this.edge - 2, MAX_SIDE_PX));
    this.ratio = window.devicePixelRatio || 1;
    const size = this.edge + this.length + 2;
    this.canvas.style.width = this.canvas.style.height = `${size}px`;
    this.canvas.width = this.canvas.height = Math.round(size * this.ratio);
    this.side = this.zoom * this.length / this.order.length;
    const most = this.side * this.order.length - this.length;
    this.left = Math.max(0, Math.min(this.left, most));
    this.top = Math.max(0, Math.min(this.top, most));
  }

  draw() {
    if (!this.map) return;
    this.measure();
    const context = this.canvas.getContext("2d"), { edge, length, side } = this;
    context.scale(this.ratio, this.ratio);
    context.fillStyle = this.colour("panel");
    context.fillRect(edge, edge, length, length);
    context.save();
    context.beginPath(); context.rect(edge, edge, length, length); context.clip();
    context.translate(edge - this.left, edge - this.top);
    this.drawCells(context);
    if (this.byLeaf) this.drawLeaves(context);
    if (this.marked) this.drawMark(context);
    context.restore();
    context.strokeStyle = this.colour("soft");
    context.strokeRect(edge - 0.5, edge - 0.5, length + 1, length + 1);
    this.drawNames(context, side);
  }

  // Rows and columns of which more than half is bad: few cells of a large map would be no stripe.
  drawStripes(context, alpha) {
    const { side } = this, whole = side * this.order.length, wide = Math.max(side, 2), [rows, columns] = this.stripes;
    context.fillStyle = OUTCOME_COLOURS.failed; context.globalAlpha = alpha;
    for (const row of rows) context.fillRect(0, (row + 0.5) * side - wide / 2, whole, wide);
    for (const column of columns) context.fillRect((column + 0.5) * side - wide / 2, 0, wide, whole);
    context.globalAlpha = 1;
  }

  drawCells(context) {
    const { side } = this, whole = side * this.order.length, least = Math.max(side, 2);
    // Below a pixel a cell, cells are mixed, so that no row is left out.
    context.imageSmoothingEnabled = side * this.ratio < 1;
    if (side >= 2) this.drawStripes(context, 0.3);
    context.drawImage(this.image, 0, 0, whole, whole);
    // Where there is no room between the cells, a row thinner than a line would not be seen.
    if (side < 2) this.drawStripes(context, this.dots.length ? 0.3 : 0.8);
    if (side >= 4) return;
    // Few cells would be lost among those without any: each is drawn large enough to be seen.
    const palette = colours(this.map).map((one) => one && css(one));
    for (const [row, column, byte, loud] of this.dots) {
      const size = loud ? Math.max(4, least) : least;
      context.fillStyle = palette[byte];
      context.fillRect((column + 0.5) * side - size / 2, (row + 0.5) * side - size / 2, size, size);
    }
  }

  // Nodes of one leaf, side by side: the first, how many, the name.
  leaves() {
    const found = [];
    this.order.forEach((number, at) => {
      const name = this.nodes[number].leaf || "no leaf", last = found[found.length - 1];
      if (last && last.name === name) last.count += 1; else found.push({ at, count: 1, name });
    });
    return found;
  }

  drawLeaves(context) {
    const whole = this.side * this.order.length;
    const leaves = this.leaves();
    if (whole / leaves.length < LINE_PX) return;
    context.strokeStyle = this.colour("soft"); context.lineWidth = 1; context.globalAlpha = 0.5;
    context.beginPath();
    for (const { at } of leaves) {
      const place = Math.round(at * this.side) + 0.5;
      context.moveTo(place, 0); context.lineTo(place, whole);
      context.moveTo(0, place); context.lineTo(whole, place);
    }
    context.stroke();
    context.globalAlpha = 1;
  }

  drawMark(context) {
    const { side } = this, size = Math.max(side, 6), whole = side * this.order.length;
    const [row, column] = this.marked.map((at) => (at + 0.5) * side);
    context.strokeStyle = this.colour("text");
    context.globalAlpha = 0.35; context.lineWidth = 1;
    context.beginPath();
    context.moveTo(0, row); context.lineTo(column - size / 2, row);
    context.moveTo(column, 0); context.lineTo(column, row - size / 2);
    context.moveTo(column + size / 2, row); context.lineTo(whole, row);
    context.moveTo(column, row + size / 2); context.lineTo(column, whole);
    context.stroke();
    context.globalAlpha = 1; context.lineWidth = 2;
    context.strokeRect(column - size / 2, row - size / 2, size, size);
  }

  // What stands along an axis: each node where there is room, else leaves, else some nodes.
  names() {
    const { side } = this, leaves = this.byLeaf ? this.leaves() : [];
    if (side < LINE_PX - 2 && leaves.length > 1 && leaves.every((one) => one.count * side >= LINE_PX - 2)) {
      return leaves.map((one) => ({ middle: (one.at + one.count / 2) * side, text: one.name }));
    }
    const step = Math.max(1, Math.ceil((LINE_PX - 2) / side));
    return this.order.map((number, at) => ({ middle: (at + 0.5) * side, text: this.nodes[number].name, at }))
      .filter(({ at }) => at % step === 0);
  }

  drawNames(context, side) {
    const { edge, length } = this, names = this.names();
    context.font = `${LETTERS_PX}px ${FONT}`; context.textBaseline = "middle"; context.textAlign = "right";
    const marked = (at) => ({ middle: (at + 0.5) * side, text: this.nodes[this.order[at]].name });
    const axis = (scrolled, at, turned) => {
      const one = at === undefined ? null : marked(at);
      const free = ({ middle }) => !one || Math.abs(middle - one.middle) >= LINE_PX - 1;
      for (const { middle, text } of [...names.filter(free), ...(one ? [one] : [])]) {
        const place = middle - scrolled;
        if (place < 0 || place > length) continue;
        context.fillStyle = this.colour(one && middle === one.middle ? "text" : "soft");
        context.save();
        if (turned) { context.translate(edge + place, edge - 5); context.rotate(Math.PI / 2); }
        else context.translate(edge - 5, edge + place);
        context.fillText(fitted(context, text, edge - LINE_PX - 8), 0, 0);
        context.restore();
      }
    };
    axis(this.top, this.marked ? this.marked[0] : undefined, false);
    axis(this.left, this.marked ? this.marked[1] : undefined, true);
    context.fillStyle = this.colour("text"); context.textAlign = "left";
    context.font = `600 ${LETTERS_PX}px ${FONT}`;
    context.fillText("data goes to →", edge, 7);
    context.save();
    context.translate(7, edge); context.rotate(Math.PI / 2);
    context.fillText("data comes from →", 0, 0);
    context.restore();
  }

  // Where a pointer is, from the first cell's corner, in pixels of the screen.
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left - this.edge, event.clientY - box.top - this.edge];
  }

  pointed(event) {
    if (!this.map) return;
    const [x, y] = this.at(event);
    if (this.grip && event.buttons && this.zoom > 1) {
      this.left -= x - this.grip[0]; this.top -= y - this.grip[1]; this.grip = [x, y];
      this.draw();
    }
    if (x < 0 || y < 0 || x >= this.length || y >= this.length) return;
    this.mark(Math.floor((y + this.top) / this.side), Math.floor((x + this.left) / this.side));
  }

  mark(row, column) {
    if (this.marked && this.marked[0] === row && this.marked[1] === column) return;
    this.marked = [row, column];
    this.draw();
    this.told(this.order[row], this.order[column]);
  }

  // The middle of a cell, from the canvas's corner, in pixels of the screen.
  middle(row, column) {
    return [this.edge + (column + 0.5) * this.side - this.left, this.edge + (row + 0.5) * this.side - this.top];
  }

  // Mark the cell of two nodes, by their numbers, and bring it into view.
  find(source, sink) {
    this.marked = null;
    this.mark(this.order.indexOf(source), this.order.indexOf(sink));
    this.reveal();
  }

  reveal() {
    const { side, length } = this, [row, column] = this.marked;
    const shown = (at, from) => at * side >= from && (at + 1) * side <= from + length ? from : at * side - length / 2;
    this.left = shown(column, this.left); this.top = shown(row, this.top);
    this.draw();
  }

  wheeled(event) {
    if (!this.map || (!event.ctrlKey && document.activeElement !== this.canvas)) return;
    event.preventDefault();
    this.scale(event.deltaY < 0 ? 1.25 : 0.8, this.at(event));
  }

  // Zoom, and keep what is at ``at`` where it is: the marked cell, else the middle.
  scale(factor, at) {
    const [x, y] = at || (this.marked ? this.middle(...this.marked).map((one) => one - this.edge)
      : [this.length / 2, this.length / 2]);
    const before = this.zoom, most = Math.max(1, this.order.length / 4);
    this.zoom = Math.max(1, Math.min(this.zoom * factor, most));
    const change = this.zoom / before;
    this.left = (this.left + x) * change - x; this.top = (this.top + y) * change - y;
    this.draw();
  }

  whole() { this.zoom = 1; this.left = this.top = 0; this.draw(); }

  keyed(event) {
    if (!this.map || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.order.length - 1, [row, column] = this.marked || [0, 0];
    const moves = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1], Home: [row, 0], End: [row, last], PageUp: [0, column], PageDown: [last, column],
    };
    const within = (at) => Math.max(0, Math.min(last, at));
    if (event.key in moves) {
      this.mark(...(this.marked ? moves[event.key].map(within) : [0, 0]));
      this.reveal();
    } else if (event.key === "+" || event.key === "=") this.scale(1.5);
    else if (event.key === "-") this.scale(1 / 1.5);
    else if (event.key === "0") this.whole();
    else if (event.key === "Enter" && this.marked) this.opened(this.order[this.marked[0]]);
    else return;
    event.preventDefault();
  }
}
