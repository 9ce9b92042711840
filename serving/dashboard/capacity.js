// Capacity and utilisation: by GPU type, by pool, and by the island of GPUs that a job must fit into.
import { byId, element, percent, span } from "./dom.js";

const MOST_UNITS = 512; // of a pool whose GPUs are drawn one by one
const MOST_NODES = 4096; // more cells than that tell nothing

export function drawCapacity(found) {
  byId("gpu-types").replaceChildren(...byType(found.pools).map((one) => element("div", { class: "card" },
    element("h3", {}, one.name, element("span", { class: "soft" }, one.pools > 1 ? ` in ${one.pools} pools` : "")), usage(one, one.name))));
  byId("pools").replaceChildren(...found.pools.map((pool) => card(pool, found.at_s)));
}

function byType(pools) {
  const types = new Map();
  for (const pool of pools) {
    const name = pool.gpu_type || "any type";
    const one = types.get(name) ?? { name, used: 0, free: 0, down: 0, pools: 0 };
    types.set(name, { name, used: one.used + pool.used, free: one.free + pool.free, down: one.down + idle(pool), pools: one.pools + 1 });
  }
  return [...types.values()];
}

// Out of service, and not in use by the last jobs of a drained node.
const idle = (pool) => Math.max(0, pool.total + pool.down - pool.used - pool.free);

// One bar: what is in use, what is free, what is out of service.
function usage({ used, free, down }, name) {
  const all = Math.max(1, used + free + down);
  const part = (kind, count) => (count > 0 ? element("span", { class: kind, style: `width:${(100 * count) / all}%` }) : null);
  const text = `${used} of ${used + free} in use, ${free} free${down ? `, ${down} out of service` : ""}`;
  return element("div", {},
    element("p", { class: "big" }, percent(used + free ? used / (used + free) : 0), element("span", { class: "soft" }, " in use")),
    element("div", { class: "usage", role: "img", "aria-label": `${name}: ${text}` }, part("used", used), part("free", free), part("down", down)),
    element("p", { class: "soft" }, text));
}

function card(pool, nowS) {
  const made = element("div", { class: "card" },
    element("h3", {}, pool.pool, pool.gpu_type ? element("span", { class: "soft" }, ` ${pool.gpu_type}`) : null), usage({ ...pool, down: idle(pool) }, pool.pool));
  if (pool.profile.length) made.append(later(pool, nowS));
  if (pool.nodes.length) made.append(...islandsOf(pool));
  return made;
}

function later(pool, nowS) {
  const steps = pool.profile;
  return element("table", { class: "later" }, element("caption", {}, "Free later"),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "in"), ...steps.map((step) => element("th", { scope: "col", class: "number" }, span(step.at_s - nowS).replace(".0 ", " "))))),
    element("tbody", {},
      element("tr", {}, element("th", { scope: "row" }, "likely"), ...steps.map((step) => element("td", { class: "number" }, String(step.free_q50)))),
      element("tr", {}, element("th", { scope: "row", title: "in nine of ten cases" }, "surely"), ...steps.map((step) => element("td", { class: "number" }, String(step.free_q10))))));
}

function islandsOf(pool) {
  const islands = new Map();
  for (const node of pool.nodes) islands.set(node.island, [...(islands.get(node.island) ?? []), node]);
  const free = [...islands.values()].map((nodes) => nodes.reduce((sum, node) => sum + node.free, 0));
  const whole = [...islands.values()].filter((nodes) => nodes.every((node) => node.free === node.full && node.full > 0)).length;
  const alone = islands.size === pool.nodes.length;
  const text = `${islands.size} ${alone ? "nodes, each an island" : `islands of ${pool.nodes.length} nodes`}: ${whole} wholly free, the roomiest has ${Math.max(...free)} free`;
  const units = pool.nodes.reduce((sum, node) => sum + node.full, 0);
  const cells = units <= MOST_UNITS ? unitCells : pool.nodes.length <= MOST_NODES ? nodeCell : null;
  if (cells === null) return [element("p", {}, text)];
  return [element("p", {}, text), element("div", { class: `islands${cells === nodeCell && alone ? " alone" : ""}${pool.nodes.length > 256 ? " many" : ""}`, role: "img", "aria-label": text },
    ...[...islands.values()].map((nodes) => element("span", { class: "island" }, ...nodes.map((node) => cells(node, alone)))))];
}

const told = (node, alone) => `node ${node.index}${alone ? "" : `, island ${node.island}`}: ${node.used} of ${node.full} in use, ${node.free} free${
  node.total < node.full ? `, ${node.full - node.total} taken out of service` : ""}`;

// One cell for each GPU of a node.
function unitCells(node, alone) {
  return element("span", { class: "node", title: told(node, alone) }, ...Array.from({ length: node.full }, (_, unit) =>
    element("i", { class: unit >= node.used + node.free ? "down" : null, style: `--used:${unit < node.used ? 100 : 0}%` })));
}

// One cell for a whole node, filled as far as it is in use.
function nodeCell(node, alone) {
  const used = node.full ? Math.round((100 * node.used) / node.full) : 0;
  return element("i", { class: node.total < node.full ? "down" : null, title: told(node, alone), style: `--used:${used}%` });
}
