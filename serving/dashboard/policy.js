// Edits weights of the policy: first tries them on the live queue without effect, then saves.
import { call } from "./api.js";
import { byId, element } from "./dom.js";

let current = null;

export function drawPolicy(found) {
  if (current && current.version === found.version) return;
  current = found;
  byId("policy-version").textContent = `version ${found.version}`;
  byId("policy-fields").replaceChildren(...found.editable.map((field) => element("label", {}, field.label,
    element("input", { type: "number", step: "any", min: field.minimum, max: field.maximum, name: field.path, value: field.value,
      "data-initial": field.value }))));
  unsaved();
}

export function drawHistory(items) {
  byId("policy-history").replaceChildren(...items.map((one) => element("li", {},
    element("strong", {}, `Version ${one.version}`), ` ${new Date(one.moment_s * 1000).toISOString().slice(0, 16).replace("T", " ")}Z by ${one.actor_name || one.actor || "somebody unknown"}`,
    one.note ? `: ${one.note}` : "",
    element("ul", { class: "soft" }, ...Object.entries(one.changed).filter(([path]) => path !== "version").slice(0, 12).map(([path, [before, after]]) =>
      element("li", {}, `${path}: ${short(before)} → ${short(after)}`))))));
  byId("policy-history-none").hidden = items.length > 0;
}

const short = (value) => { const text = JSON.stringify(value) ?? "–"; return text.length > 60 ? `${text.slice(0, 59)}…` : text; };

function unsaved() { byId("policy-save").disabled = true; }

// A JSON merge patch of the fields that differ.
function patch() {
  const made = {};
  for (const input of byId("policy-fields").querySelectorAll("input")) {
    if (input.value === "" || input.value === input.dataset.initial) continue;
    const steps = input.name.split(".");
    let place = made;
    for (const step of steps.slice(0, -1)) place = place[step] ??= {};
    place[steps.at(-1)] = Number(input.value);
  }
  return made;
}

export function wirePolicy(saved) {
  const result = byId("policy-result");
  const moves = byId("policy-moves");
  byId("policy-fields").addEventListener("input", unsaved);
  byId("policy-form").addEventListener("reset", () => { moves.replaceChildren(); result.textContent = ""; unsaved(); });
  byId("policy-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const wanted = patch();
    if (!Object.keys(wanted).length) { result.textContent = "Nothing is changed yet."; return; }
    try {
      const tried = await call("/v1/what-if", { method: "POST", body: { patch: wanted } });
      const moved = tried.moved.slice(0, 12);
      result.textContent = tried.moved.length ? `${tried.moved.length} of the first jobs would move:` : "The order would stay as it is.";
      moves.replaceChildren(...moved.map((move) => element("li", { class: (move.after ?? 0) < (move.before ?? 1e9) ? "up" : "down" },
        `${move.job_id}: ${move.before ?? "out of the first"} to ${move.after ?? "out of the first or started"}`)));
      byId("policy-save").disabled = false;
    } catch (error) { result.textContent = error.message; }
  });
  byId("policy-save").addEventListener("click", async () => {
    try {
      await call("/v1/policy", { method: "PATCH", body: { patch: patch(), note: "dashboard" }, headers: { "if-match": `"${current.version}"` } });
      result.textContent = "Saved.";
      moves.replaceChildren();
      current = null;
      await saved();
    } catch (error) { result.textContent = error.message; }
  });
}

export async function moveClass(jobId, workloadClass) {
  return call("/v1/what-if", { method: "POST", body: { job_id: jobId, change: { workload_class: workloadClass } } });
}
