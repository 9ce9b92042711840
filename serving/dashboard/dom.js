// Small helpers to build elements from data; text is only ever set as text.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "dataset") Object.assign(made.dataset, value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);

export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const value = Math.max(0, Math.round(seconds));
  if (value < 60) return `${value} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min`;
  if (value < 86400) return `${(value / 3600).toFixed(1)} h`;
  return `${(value / 86400).toFixed(1)} d`;
}

// With seconds where they matter: within some minutes of now.
export function clock(atS, nowS, seconds = Math.abs(atS - nowS) < 600) {
  if (atS === null || atS === undefined || !Number.isFinite(atS)) return "–";
  const date = new Date(atS * 1000);
  const time = date.toISOString().slice(11, seconds ? 19 : 16);
  return Math.abs(atS - nowS) < 72000 ? `${time}Z` : `${date.toISOString().slice(5, 10)} ${time}Z`;
}

export const range = (from, to) => (from === to ? from : `${from} – ${to}`);

export const percent = (ratio) => `${(100 * ratio).toFixed(1)} %`;
