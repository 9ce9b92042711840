// Calls of the service: keys, entity tags, and problems that people can read.
import { byId } from "./dom.js";

const tags = new Map();
let asking = null;

const key = () => sessionStorage.getItem("predictor-key");

export async function call(path, { method = "GET", body = undefined, headers = {} } = {}) {
  const sent = { accept: "application/json", ...headers };
  if (key()) sent.authorization = `Bearer ${key()}`;
  if (body !== undefined) sent["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
  if (answer.status === 401) {
    await signIn();
    return call(path, { method, body, headers });
  }
  const value = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error([value.detail, ...(value.errors ?? []).map((fault) => fault.detail)].join("; "));
  return value;
}

// Fetches a view; null where it is as it was.
export async function view(path) {
  const headers = { accept: "application/json" };
  if (key()) headers.authorization = `Bearer ${key()}`;
  const known = tags.get(path);
  if (known) headers["if-none-match"] = known;
  const answer = await fetch(path, { headers, cache: "no-store" });
  if (answer.status === 304) return null;
  if (answer.status === 401 || answer.status === 403) { // views need no more than the scope predict
    await signIn(answer.status === 403 ? (await answer.json()).detail : undefined);
    return view(path);
  }
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  if (answer.headers.get("etag")) tags.set(path, answer.headers.get("etag"));
  return answer.json();
}

export function forget() { tags.clear(); }

export async function ticket() {
  if (!key()) return "";
  const answer = await call("/v1/tickets", { method: "POST", body: {} });
  return answer.ticket;
}

function signIn(why = key() ? "The service does not take this key." : "The service asks for a key with the scope predict.") {
  if (asking) return asking;
  const dialog = byId("signin");
  byId("signin-why").textContent = why;
  byId("signin-key").value = "";
  dialog.onclose = () => { if (asking) dialog.showModal(); }; // nothing can be shown without a key
  asking = new Promise((resolve) => {
    byId("signin-form").addEventListener("submit", () => {
      sessionStorage.setItem("predictor-key", byId("signin-key").value);
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}
