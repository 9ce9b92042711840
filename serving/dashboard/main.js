// Puts the page together: fetches views, and fetches them again when the feed says that they changed.
import { call, forget, view } from "./api.js";
import { drawCapacity } from "./capacity.js";
import { byId, element } from "./dom.js";
import { Feed } from "./feed.js";
import { drawTimeline } from "./gantt.js";
import { drawAlerts, drawModels, drawTeams } from "./panels.js";
import { drawHistory, drawPolicy, moveClass, wirePolicy } from "./policy.js";
import { drawExplanation, drawQueue } from "./queue.js";

let limit = 50;
const last = {};
const stale = new Set();
let timer = null;

const PARTS = {
  queue: async () => {
    const page = await view(`/v1/queue?limit=${limit}`);
    if (page) { last.queue = page; drawQueue(page, explain); summary(); }
  },
  running: async () => {
    const [running, reservations] = await Promise.all([view("/v1/jobs?state=running&limit=500"), view("/v1/reservations")]);
    last.running = running ?? last.running;
    last.reservations = reservations ?? last.reservations;
    timeline();
    summary();
  },
  capacity: async () => { const found = await view("/v1/capacity"); if (found) drawCapacity(found); },
  teams: async () => { const found = await view("/v1/fair-share"); if (found) drawTeams(found); },
  model: async () => { const found = await view("/v1/models"); if (found) drawModels(found); },
  alerts: async () => { const found = await view("/v1/alerts"); if (found) drawAlerts(found); },
  policy: async () => {
    const found = await view("/v1/policy");
    if (found) { last.policy = found; drawPolicy(found); }
    drawHistory((await view("/v1/policy/history?limit=20")).items);
  },
};
const OF_TOPIC = {
  queue: ["queue", "running", "capacity", "teams"], jobs: ["running", "capacity", "teams"], reservations: ["queue", "running"],
  model: ["model"], alerts: ["alerts"],
};

function refresh(parts) {
  parts.forEach((part) => stale.add(part));
  timer ??= setTimeout(async () => {
    const now = [...stale];
    stale.clear();
    const results = await Promise.allSettled(now.map((part) => PARTS[part]()));
    results.forEach((result, index) => { if (result.status === "rejected") stale.add(now[index]); });
    timer = null;
    if (stale.size) setTimeout(() => refresh([]), 1000);
  }, 150);
}

function timeline() {
  if (last.running) drawTimeline(last.running.items, last.reservations.items, last.running.at_s);
}

function summary() {
  if (!last.queue || !last.running) return;
  byId("summary").textContent = `${last.queue.total.toLocaleString()} waiting, ${last.running.total.toLocaleString()} running`;
}

async function explain(jobId) {
  let found;
  try {
    found = await call(`/v1/jobs/${encodeURIComponent(jobId)}/explanation`);
  } catch (error) { // it may have ended meanwhile
    byId("job-title").textContent = `Job ${jobId}`;
    byId("job-body").replaceChildren(element("p", {}, error.message));
    byId("job").showModal();
    return;
  }
  drawExplanation(found);
  if (found.position !== null && last.policy) byId("job-body").append(classEditor(found));
  byId("job").showModal();
}

function classEditor(found) {
  const choice = element("select", { "aria-label": "Class" }, ...last.policy.classes.map((name) => element("option",
    name === found.workload_class ? { value: name, selected: "" } : { value: name }, name)));
  const result = element("p", { role: "status" });
  const attempt = element("button", { type: "button", onclick: async () => {
    try {
      const tried = await moveClass(found.job_id, choice.value);
      const own = tried.moved.find((move) => move.job_id === found.job_id);
      result.textContent = own ? `It would go from ${own.before ?? "–"} to ${own.after ?? "a start"}.` : "Its place would stay.";
    } catch (error) { result.textContent = error.message; }
  } }, "Try class");
  const save = element("button", { type: "button", onclick: async () => {
    try {
      await call(`/v1/jobs/${encodeURIComponent(found.job_id)}`, { method: "PATCH", body: { workload_class: choice.value } });
      result.textContent = "Saved.";
    } catch (error) { result.textContent = error.message; }
  } }, "Save class");
  return element("div", {}, element("h3", {}, "Class"), choice, " ", attempt, " ", save, result);
}

function theme() {
  const button = byId("theme");
  const set = (name) => {
    document.documentElement.dataset.theme = name;
    button.setAttribute("aria-pressed", String(name === "dark"));
    localStorage.setItem("predictor-theme", name);
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  set(localStorage.getItem("predictor-theme") ?? (dark ? "dark" : "light"));
  button.addEventListener("click", () => set(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

theme();
await view("/v1/queue?limit=1").catch(() => null); // asks for a key where one is needed, before the feed would be refused
wirePolicy(async () => refresh(Object.keys(PARTS)));
byId("more").addEventListener("click", () => { limit = Math.min(limit + 100, 500); refresh(["queue"]); });
new Feed({
  changed: (changes) => refresh(new Set(changes.flatMap((change) => OF_TOPIC[change.topic] ?? [])
    .concat(changes.some((change) => change.kind === "policy") ? ["policy"] : []))),
  resync: () => { forget(); refresh(Object.keys(PARTS)); },
  state: (name, text) => { const badge = byId("connection"); badge.dataset.state = name; badge.textContent = text; },
}).start();
setInterval(() => refresh(["queue", "running", "model"]), 15000);
addEventListener("resize", timeline); // it is drawn for the width that there is
