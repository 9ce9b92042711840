// Running jobs with the band of their remaining time, and promised starts, on one time axis.
import { byId, clock, element, span, svg } from "./dom.js";

const ROW = 20;
const LEFT = 130;
const WIDTH = 1000;

export function drawTimeline(running, reservations, nowS) {
  const starts = running.map((job) => job.started_s);
  const ends = running.map((job) => nowS + (job.remaining.q90 ?? 0)).concat(reservations.map((one) => one.latest_s));
  const horizon = Math.max(nowS + 600, ...ends.filter(Number.isFinite));
  const from = Math.max(Math.min(nowS, ...starts), nowS - (horizon - nowS));
  const x = (atS) => LEFT + (WIDTH - LEFT - 10) * Math.min(1, Math.max(0, (atS - from) / (horizon - from)));
  const rows = running.slice(0, 60);
  const promised = reservations.slice(0, 30);
  const height = ROW * (rows.length + promised.length + 2);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, width: "100%", style: "min-width:42rem",
    role: "img", "aria-label": `${running.length} running jobs, ${reservations.length} promised starts` });
  for (let step = 0; step <= 6; step += 1) {
    const atS = from + (horizon - from) * step / 6;
    picture.append(svg("line", { class: "axis", x1: x(atS), x2: x(atS), y1: 0, y2: height - ROW }),
      svg("text", { x: Math.min(x(atS), WIDTH - 44), y: height - 6 }, clock(atS, nowS)));
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

const label = (name) => (name.length > 18 ? `${name.slice(0, 17)}…` : name);
