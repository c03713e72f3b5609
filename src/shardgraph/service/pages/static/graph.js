// Draws the shard graph. Positions are computed here, without a simulation: the drawing is always the same, also with a
// thousand shards. A folded group is one node; an unfolded one is a box with its shards in rows.
"use strict";

(() => {
  const box = document.getElementById("graph");
  const panel = document.getElementById("panel");
  const CELL = 64, GAP = 34, MANY = 200; // with more shards than this, groups are folded at first
  let graph, cy;
  const open = new Set();

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const size = (samples, most) => 14 + 24 * Math.sqrt(samples / Math.max(1, most));

  function state(shards) {
    const found = new Set(shards.map((shard) => shard[3]));
    return found.has("missing") ? "missing" : found.has("serving") ? "serving" : "idle";
  }

  // Groups fill rows from left to right; the width of the drawing follows from its area.
  function elements() {
    const tiles = graph.groups.map((group) => {
      const columns = open.has(group.name) ? Math.ceil(Math.sqrt(group.shards.length)) : 1;
      const rows = open.has(group.name) ? Math.ceil(group.shards.length / columns) : 1;
      return { group, columns, rows, width: columns * CELL + GAP, height: rows * CELL + GAP };
    });
    const area = tiles.reduce((sum, tile) => sum + tile.width * tile.height, 0);
    const width = Math.sqrt(area * 1.6);
    const mostShard = Math.max(...graph.groups.flatMap((group) => group.shards.map((shard) => shard[1])));
    const totals = graph.groups.map((group) => group.shards.reduce((sum, shard) => sum + shard[1], 0));
    const mostGroup = Math.max(...totals);
    const nodes = [];
    let x = 0, y = 0, tallest = 0;
    tiles.forEach((tile, index) => {
      if (x > 0 && x + tile.width > width) { x = 0; y += tallest; tallest = 0; }
      const { group } = tile, key = `group ${group.name}`;
      if (open.has(group.name)) {
        nodes.push({ group: "nodes", data: { id: key, label: group.label, of: group.name }, classes: "box" });
        group.shards.forEach(([name, samples, label, served], i) => nodes.push({
          group: "nodes",
          data: { id: `shard ${name}`, parent: key, label, shard: name, of: group.name, size: size(samples, mostShard) },
          position: { x: x + (i % tile.columns + 0.5) * CELL, y: y + (Math.floor(i / tile.columns) + 0.5) * CELL },
          classes: served,
        }));
      } else {
        const count = group.shards.length;
        nodes.push({
          group: "nodes",
          data: {
            id: key, of: group.name, size: size(totals[index], mostGroup), shard: count === 1 ? group.shards[0][0] : undefined,
            label: count === 1 ? group.label : `${group.label} (${count})`,
          },
          position: { x: x + CELL / 2, y: y + CELL / 2 },
          classes: `${state(group.shards)}${count > 1 ? " folded" : ""}`,
        });
      }
      x += tile.width;
      tallest = Math.max(tallest, tile.height);
    });
    const edges = graph.edges.map(([from, to, secret]) => ({
      group: "edges", data: { id: `edge ${from} ${to}`, source: `group ${from}`, target: `group ${to}` },
      classes: secret ? "private" : "",
    }));
    return [...nodes, ...edges];
  }

  function style() {
    const ink = colour("--ink"), quiet = colour("--quiet"), card = colour("--card");
    const filled = (name) => ({ "background-color": colour(name) });
    return [
      { selector: "node", style: { width: "data(size)", height: "data(size)", label: "data(label)", color: ink, "font-size": 9, "text-valign": "bottom", "text-margin-y": 3, "min-zoomed-font-size": 7, "text-max-width": CELL - 6, "text-wrap": "ellipsis", "border-width": 0 } },
      { selector: "node.serving", style: filled("--good") },
      { selector: "node.missing", style: filled("--bad") },
      { selector: "node.idle", style: filled("--idle") },
      { selector: "node.folded", style: { shape: "round-rectangle", "border-width": 3, "border-style": "double", "border-color": card } },
      { selector: "node.box", style: { shape: "round-rectangle", "background-color": card, "background-opacity": 0.8, "border-width": 1, "border-color": quiet, padding: 8, "text-valign": "top", "text-margin-y": -3, color: quiet } },
      { selector: "node:selected", style: { "border-width": 4, "border-style": "solid", "border-color": colour("--focus") } },
      { selector: "edge", style: { width: 1.2, "line-color": quiet, "target-arrow-color": quiet, "target-arrow-shape": "triangle", "arrow-scale": 0.7, "curve-style": "straight", opacity: 0.55 } },
      { selector: "edge.private", style: { "line-style": "dashed" } },
    ];
  }

  function draw() {
    cy.batch(() => { cy.elements().remove(); cy.add(elements()); });
    cy.fit(undefined, 24);
    box.dataset.nodes = String(cy.nodes().length);
  }

  async function choose(name) {
    panel.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(box.dataset.shard + encodeURIComponent(name), { headers: { Accept: "text/html" } });
      if (answer.redirected) { location.assign(`?shard=${encodeURIComponent(name)}`); return; } // to the login, and back
      if (!answer.ok) throw new Error(String(answer.status));
      const found = new DOMParser().parseFromString(await answer.text(), "text/html");
      panel.replaceChildren(...found.body.childNodes);
    } catch {
      panel.textContent = "The shard could not be loaded. Reload the page, or try again in a moment.";
    }
    panel.removeAttribute("aria-busy");
  }

  function tapped(event) {
    const { shard, of } = event.target.data();
    if (shard !== undefined) { choose(shard); return; }
    if (open.has(of)) open.delete(of); else open.add(of);
    draw();
  }

  async function begin() {
    try {
      const answer = await fetch(box.dataset.from);
      if (!answer.ok) throw new Error(String(answer.status));
      graph = await answer.json();
    } catch {
      box.firstElementChild.textContent = "The graph could not be loaded. The list below contains the same shards.";
      return;
    }
    const shards = graph.groups.reduce((sum, group) => sum + group.shards.length, 0);
    if (shards <= MANY) for (const group of graph.groups) if (group.shards.length > 1) open.add(group.name);
    box.replaceChildren();
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${shards} shards in ${graph.groups.length} groups; the list below contains the same shards`);
    cy = cytoscape({ container: box, style: style(), wheelSensitivity: 0.3, autoungrabify: true, hideEdgesOnViewport: shards > MANY, textureOnViewport: shards > MANY, layout: { name: "preset" } });
    cy.on("tap", "node", tapped);
    draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(style()));
  }

  for (const button of document.querySelectorAll("[data-graph]")) {
    button.addEventListener("click", () => {
      if (!cy) return;
      const act = button.dataset.graph;
      if (act === "fold") open.clear();
      if (act === "unfold") for (const group of graph.groups) if (group.shards.length > 1) open.add(group.name);
      if (act === "fit") cy.fit(undefined, 24); else draw();
    });
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-choose]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    choose(link.dataset.choose).then(() => { panel.focus(); panel.scrollIntoView({ block: "nearest" }); });
  });
  begin();
})();
