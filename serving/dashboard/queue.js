// The waiting jobs: position, what decides it, when it is expected to start, and why not now.
import { byId, clock, element, range, span } from "./dom.js";

const COLOURS = 6;
let shown = new Map();

export function drawQueue(page, explain) {
  byId("waiting-count").textContent = `${page.total.toLocaleString()} jobs`;
  const before = shown;
  shown = new Map(page.items.map((job) => [job.job_id, job.position]));
  const focused = document.activeElement?.dataset?.job;
  byId("queue-rows").replaceChildren(...page.items.map((job) => row(job, page.at_s, before.get(job.job_id), explain)));
  if (focused) document.querySelector(`[data-job="${CSS.escape(focused)}"]`)?.focus();
  drawLegend(page.items[0]?.factors ?? {});
  byId("more").hidden = page.next_cursor === null;
}

function row(job, nowS, wasAt, explain) {
  const eta = job.eta;
  const start = eta ? range(clock(eta.q50_s, nowS), clock(eta.q90_s, nowS)) : "–";
  const promise = job.promise ? element("div", { class: "soft" }, `promised by ${clock(job.promise.latest_s, nowS)}`) : null;
  const open = element("button", { type: "button", class: "link", dataset: { job: job.job_id },
    title: job.job_id, "aria-label": `Explain job ${job.job_id}`, onclick: () => explain(job.job_id) }, job.job_id);
  const cell = (label, attributes, ...children) => element("td", { "data-label": label, ...attributes }, ...children);
  const made = element("tr", { dataset: { row: job.job_id } },
    cell("#", {}, String(job.position)),
    cell("Job", {}, open),
    cell("Team", {}, [job.team, job.user].filter(Boolean).join(" / ") || "–"),
    cell("Class", {}, job.workload_class),
    cell("GPUs", { class: "number" }, `${job.width}${job.gpu_type ? ` × ${job.gpu_type}` : ""}`),
    cell("Waited", { class: "number" }, span(job.waited_s)),
    cell("Expected start", {}, start, promise),
    cell("Runs for", {}, range(span(job.forecast.q50), span(job.forecast.q90))),
    cell("What decides", {}, factors(job.factors)),
    cell("Why not now", { class: "reason" }, job.reason ? job.reason.sentence : "–"));
  if (wasAt !== undefined && wasAt !== job.position) made.className = "moved";
  return made;
}

function drawLegend(values) {
  byId("factor-legend").hidden = Object.keys(values).length === 0;
  byId("factor-legend").replaceChildren("What decides: ", ...Object.keys(values).flatMap((name, index) => [
    element("i", { class: "colour", style: `background:${colour(index)}` }), ` ${name.replaceAll("_", " ")} `]));
}

const colour = (index) => `var(--f${index % COLOURS})`;

export function factors(values) {
  const entries = Object.entries(values).filter(([, value]) => Number.isFinite(value) && value !== 0);
  const total = entries.reduce((sum, [, value]) => sum + Math.abs(value), 0) || 1;
  const text = entries.map(([name, value]) => `${name} ${value > 0 ? "+" : ""}${value.toPrecision(2)}`).join(", ") || "none";
  const names = Object.keys(values);
  return element("div", { class: "factors", role: "img", "aria-label": `factors: ${text}`, title: text },
    ...entries.map(([name, value]) => element("span", {
      style: `width:${(100 * Math.abs(value) / total).toFixed(1)}%;background:${colour(names.indexOf(name))}`,
    })));
}

export function drawExplanation(found) {
  byId("job-title").textContent = `Job ${found.job_id}`;
  const rows = [["State", found.state], ["Position", found.position ?? "–"],
    ["Why not now", found.reason?.sentence ?? "–"],
    ["Expected start", found.eta ? Object.entries(found.eta).map(([name, at]) => `${name.replace("_s", "")} ${clock(at, found.at_s)}`).join(", ") : "–"],
    ["Promised", found.promise ? `${clock(found.promise.start_s, found.at_s)}, at the latest ${clock(found.promise.latest_s, found.at_s)}` : "no promise"],
    ["Expected run", found.forecast ? Object.entries(found.forecast).map(([name, value]) => `${name} ${span(value)}`).join(", ") : "–"]];
  if (found.siblings) rows.push(["Its siblings", found.siblings]);
  const list = element("dl", {}, ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, String(value))]));
  const weights = element("dl", {}, ...Object.entries(found.factors ?? {}).flatMap(([name, value]) => [
    element("dt", {}, name.replaceAll("_", " ")), element("dd", {}, Number(value).toPrecision(4))]));
  const changes = element("ul", {}, ...(found.would_change ?? []).map((text) => element("li", {}, text)));
  byId("job-body").replaceChildren(list, element("h3", {}, "Factors"), element("p", { class: "soft" }, found.position === null ? "Only of jobs that wait." : "The smallest sum comes first."), weights,
    element("h3", {}, "What would change it"), changes);
}
