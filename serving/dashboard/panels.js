// Teams, forecasts and alerts.
import { byId, element, percent, span } from "./dom.js";

export function drawTeams(found) {
  byId("team-rows").replaceChildren(...found.teams.map((team) => element("tr", {},
    element("th", { scope: "row" }, team.team || "(none)"),
    element("td", {}, element("meter", { min: 0, max: Math.max(1, team.usage_ratio), high: 1, value: team.usage_ratio,
      "aria-label": `${team.team} uses ${percent(team.usage_ratio)} of its share` }), percent(team.usage_ratio)),
    element("td", { class: "number" }, String(team.running)),
    element("td", { class: "number" }, String(team.waiting)),
    element("td", { class: "number" }, team.quota === null ? "none" : String(team.quota)))));
}

const TITLES = { vram: "GPU memory", topology: "Topology" };

export function drawModels(models) {
  const served = models.served;
  const cards = [element("div", { class: "card" },
    element("h3", {}, "Duration"),
    element("p", {}, served ? `${served.origin}: ${served.version}` : "no model"),
    element("p", { class: "soft" }, served?.reason || ""),
    facts([...Object.entries(models.coverage).map(([name, share]) => [`at or below ${name}`, percent(share)]),
      ["error, mean |ln|", ratio(models.quality.mean_abs_log_ratio)], ["when judged", ratio(models.quality.judged_abs_log_ratio)],
      ["outcomes", String(models.quality.outcomes)]]))];
  for (const target of models.targets.filter((one) => one.target !== "duration")) {
    cards.push(element("div", { class: "card" }, element("h3", {}, TITLES[target.target] ?? target.target),
      target.version ? element("p", {}, `${target.origin}: ${target.version}`) : element("p", { class: "soft" }, target.reason),
      target.target === "vram" ? facts([["ran out of memory", models.quality.out_of_memory_ratio === null ? "–" : percent(models.quality.out_of_memory_ratio)],
        ["jobs with GPUs", String(models.quality.gpu_jobs)]]) : null));
  }
  cards.push(element("div", { class: "card" }, element("h3", {}, "Versions"),
    facts(models.aliases.map((alias) => [alias.alias, alias.version ?? "none"]))));
  byId("models").replaceChildren(...cards);
}

const ratio = (value) => (value === null ? "–" : value.toFixed(2));
const facts = (pairs) => element("dl", {}, ...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

export function drawAlerts(found) {
  const list = found.alerts.map((alert) => element("li", { dataset: { severity: alert.severity } },
    element("strong", {}, `${alert.severity}: `), alert.sentence,
    element("div", { class: "soft" }, alert.fix, alert.since_s ? ` (for ${span(found.at_s - alert.since_s)})` : "")));
  byId("alert-list").replaceChildren(...(list.length ? list : [element("li", { dataset: { severity: "none" } }, "Nothing to tell.")]));
}
