// Capacity, teams, forecasts and alerts.
import { byId, clock, element, percent, span } from "./dom.js";

export function drawCapacity(found) {
  byId("pools").replaceChildren(...found.pools.map((pool) => {
    const used = pool.total - pool.free;
    const card = element("div", { class: "card" },
      element("h3", {}, pool.pool, pool.gpu_type ? element("span", { class: "soft" }, ` ${pool.gpu_type}`) : null),
      element("p", {}, `${used} of ${pool.total} in use, ${pool.free} free${pool.down ? `, ${pool.down} out of service` : ""}`),
      element("meter", { min: 0, max: Math.max(1, pool.total), value: used, "aria-label": `${pool.pool} in use` }));
    if (pool.profile?.length) {
      const next = pool.profile.slice(0, 4).map((step) => `${clock(step.at_s, found.at_s)}: ${step.free_q50} (${step.free_q10} sure)`);
      card.append(element("p", { class: "soft" }, `free later, ${next.join("; ")}`));
    }
    if (pool.nodes?.length && pool.nodes.length <= 512) {
      card.append(element("div", { class: "nodes", role: "img",
        "aria-label": `${pool.nodes.length} nodes, ${pool.nodes.filter((node) => node.free > 0).length} of them with room` },
        ...pool.nodes.map((node) => element("i", {
          title: `node ${node.index}: ${node.total - node.free} of ${node.total} in use${node.islands ? `, islands ${node.islands}` : ""}`,
          style: `--used:${node.total ? Math.round(100 * (node.total - node.free) / node.total) : 0}%` }))));
    }
    return card;
  }));
}

export function drawTeams(found) {
  byId("team-rows").replaceChildren(...found.teams.map((team) => element("tr", {},
    element("th", { scope: "row" }, team.team || "(none)"),
    element("td", {}, element("meter", { min: 0, max: Math.max(1, team.usage_ratio), high: 1, value: team.usage_ratio,
      "aria-label": `${team.team} uses ${percent(team.usage_ratio)} of its share` }), percent(team.usage_ratio)),
    element("td", { class: "number" }, String(team.running)),
    element("td", { class: "number" }, String(team.waiting)),
    element("td", { class: "number" }, team.quota === null ? "none" : String(team.quota)))));
}

export function drawModels(models) {
  const served = models.served;
  const cards = [element("div", { class: "card" },
    element("h3", {}, "Duration"),
    element("p", {}, served ? `${served.origin}: ${served.version}` : "no model"),
    element("p", { class: "soft" }, served?.reason || ""),
    ...Object.entries(models.coverage).map(([name, share]) => element("p", {}, `${name}: ${percent(share)} of outcomes at or below`)))];
  for (const target of models.targets ?? []) {
    cards.push(element("div", { class: "card" }, element("h3", {}, target.target),
      element("p", {}, `${target.origin}: ${target.version ?? "none"}`),
      ...Object.entries(target.quality ?? {}).map(([name, value]) => element("p", {}, `${name}: ${percent(value)}`))));
  }
  cards.push(element("div", { class: "card" }, element("h3", {}, "Versions"),
    ...models.aliases.map((alias) => element("p", {}, `${alias.alias}: ${alias.version ?? "none"}`))));
  byId("models").replaceChildren(...cards);
}

export function drawAlerts(found) {
  const list = found.alerts.map((alert) => element("li", { dataset: { severity: alert.severity } },
    element("strong", {}, `${alert.severity}: `), alert.sentence,
    element("div", { class: "soft" }, alert.fix, alert.since_s ? ` (for ${span(found.at_s - alert.since_s)})` : "")));
  byId("alert-list").replaceChildren(...(list.length ? list : [element("li", { dataset: { severity: "none" } }, "Nothing to tell.")]));
}
