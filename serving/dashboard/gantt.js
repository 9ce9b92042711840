// Running jobs with the band of their remaining time, and promised starts, on one time axis.
import { byId, clock, element, span, svg } from "./dom.js";

const ROW = 20;
const NARROW = 600; // pixels
const STEPS_S = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

export function drawTimeline(running, reservations, nowS) {
  const starts = running.map((job) => job.started_s);
  const ends = running.map((job) => nowS + (job.remaining.q90 ?? 0)).concat(reservations.map((one) => one.latest_s));
  const horizon = Math.max(nowS + 600, ...ends.filter(Number.isFinite));
  const from = Math.max(Math.min(nowS, ...starts), nowS - (horizon - nowS));
  const width = Math.max(320, byId("gantt").clientWidth);
  const isNarrow = width < NARROW;
  const left = isNarrow ? 92 : 140;
  const label = (name) => { const most = isNarrow ? 12 : 18; return name.length > most ? `${name.slice(0, most - 1)}…` : name; };
  const x = (atS) => left + (width - left - 10) * Math.min(1, Math.max(0, (atS - from) / (horizon - from)));
  const rows = running.slice(0, 60);
  const promised = reservations.slice(0, 30);
  const height = ROW * (rows.length + promised.length + 2);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${running.length} running jobs, ${reservations.length} promised starts` });
  const step = STEPS_S.find((one) => (horizon - from) / one <= (isNarrow ? 3 : 8)) ?? STEPS_S.at(-1);
  for (let atS = Math.ceil(from / step) * step; atS <= horizon; atS += step) {
    picture.append(svg("line", { class: "axis", x1: x(atS), x2: x(atS), y1: 0, y2: height - ROW }),
      svg("text", { x: Math.min(x(atS), width - 60), y: height - 6 }, clock(atS, nowS, step < 60)));
  }
  rows.forEach((job, index) => {
    const y = 4 + ROW * index;
    const median = x(nowS + (job.remaining.q50 ?? 0));
    const late = x(nowS + (job.remaining.q90 ?? 0));
    const name = `${job.job_id}: ${job.width} in ${job.pool}, runs ${span(job.elapsed_s)}, ${span(job.remaining.q50)} to ${span(job.remaining.q90)} more`;
    picture.append(svg("g", {}, svg("title", {}, name),
      svg("text", { x: 2, y: y + 11 }, label(job.job_id)),
      svg("rect", { class: "band", x: median, y, width: Math.max(0, late - median), height: ROW - 8 }),
      svg("rect", { class: "bar", x: x(job.started_s), y, width: Math.max(2, median - x(job.started_s)), height: ROW - 8 })));
  });
  promised.forEach((one, index) => {
    const y = 4 + ROW * (rows.length + index);
    const at = x(one.start_s);
    picture.append(svg("g", {}, svg("title", {}, `${one.job_id} promised ${clock(one.start_s, nowS)} to ${clock(one.latest_s, nowS)}`),
      svg("text", { x: 2, y: y + 11 }, label(one.job_id)),
      svg("rect", { class: "band", x: at, y: y + 3, width: Math.max(0, x(one.latest_s) - at), height: 6 }),
      svg("path", { class: "promise", d: `M${at} ${y} l7 6 l-7 6 l-7 -6 z` })));
  });
  picture.append(svg("line", { x1: x(nowS), x2: x(nowS), y1: 0, y2: height - ROW, stroke: "var(--bad)" }));
  const table = element("p", { class: "soft" }, rows.length ? "" : "Nothing runs.");
  byId("gantt").replaceChildren(picture, table);
}
