// Curves, bars and the what-if card.
const MARK = { t_ns: 1e8 };

// Late calls of a curve: those above T, and those without reply.
function laterThan(curve, t) {
  let at = -1;
  for (let low = 0, high = curve.at_most_ns.length - 1; low <= high;) {
    const middle = (low + high) >> 1;
    if (curve.at_most_ns[middle] <= t) { at = middle; low = middle + 1; } else high = middle - 1;
  }
  return curve.calls ? 1 - (at < 0 ? 0 : curve.counts[at]) / curve.calls : 0;
}
function curves(id, named, options = {}) {
  const shown = named.filter(([, curve]) => curve && curve.calls && curve.at_most_ns.length);
  if (!shown.length) return none(id, "There is no call of this kind.");
  const firsts = shown.map(([, c]) => c.at_most_ns[Math.max(0, c.counts.findIndex(n => n > 0) - 1)]);
  const lasts = shown.map(([, c]) => c.at_most_ns[c.at_most_ns.length - 1]);
  const from = 10 ** Math.floor(Math.log10(Math.max(1e3, Math.min(...firsts))));
  const to = 10 ** Math.ceil(Math.log10(Math.max(...lasts, from * 10)));
  const least = Math.min(...shown.map(([, c]) => 0.5 / c.calls));
  const tail = options.tail;
  const powers = [];
  for (let p = 0; tail && 10 ** p >= least; p--) powers.push([10 ** p, share(10 ** p)]);
  const y = tail ? { from: least, to: 1, log: true, name: "Share of calls that take longer", ticks: powers } :
    { from: 0, to: 1, name: "Share of calls with at most this latency", ticks: [0, .25, .5, .75, .9, 1].map(v => [v, `${v * 100} %`]) };
  const x = { from, to, log: true, name: "Latency, from when the call was due (log)", ticks: decades(from, to) };
  const { svg, area, atX, atY, place } = frame(id, `${shown.length} curves of latencies`, x, y, 320);
  shown.forEach(([name, curve], at) => {
    const of = n => tail ? Math.max(least, (curve.calls - n) / curve.calls) : n / curve.calls;
    let path = "";
    curve.at_most_ns.forEach((ns, i) => { path += `${i ? "L" : "M"}${atX(ns).toFixed(1)} ${atY(of(curve.counts[i])).toFixed(1)}`; });
    const q = curve.quantiles_ns;
    svg.append(hint(stroke(draw("path", { class: "curve", d: path }), at),
      `${name}: ${count(curve.calls)} calls; p50 ${time(q.p50)}, p90 ${time(q.p90)}, p99 ${time(q.p99)}, p99.9 ${time(q.p99_9)}`));
  });
  if (options.mark) {
    const px = atX(options.mark), end = px > (area.left + area.right) / 2;
    svg.append(draw("line", { class: "mark", x1: px, x2: px, y1: area.top, y2: area.bottom }));
    svg.append(draw("text", { class: "marked", x: px + (end ? -6 : 6), y: tail ? area.top + 12 : area.bottom - 8, "text-anchor": end ? "end" : "start" }, `T = ${time(options.mark)}`));
  }
  const never = c => c.no_reply ? `, ${count(c.no_reply)} without reply` : "";
  const names = shown.map(([name, c]) => `${name}: p50 ${time(c.quantiles_ns.p50)}, p99 ${time(c.quantiles_ns.p99)} (${count(c.calls)}${never(c)})`);
  place.replaceChildren(svg, legend(names));
}
let cdfScale;
function cdf() {
  curves("cdf", [["single calls", DATA.individual], ["whole groups (slowest member)", DATA.group]], { tail: cdfScale.value === "tail", mark: MARK.t_ns });
  const late = c => share(laterThan(c, MARK.t_ns));
  read("cdf", `Read up from a latency to see the share of calls that is complete by then; the dashed line is the T of the card below: ` +
    `${late(DATA.individual)} of single calls and ${late(DATA.group)} of group calls take longer. A curve that does not reach the top has calls without reply.`);
}
function bySize() {
  curves("by-size", DATA.by_size.map(row => [`groups of ${row.name}`, row.curve]));
  read("by-size", DATA.by_size.length > 1 ? "Group calls, by members: the further right a curve, the longer its groups wait for their slowest member." :
    "Group calls: all groups have one size here, so there is nothing to compare.");
}
const WORKLOADS = { null: "nothing", crypto: "hash", disk: "synced write", network: "50 KB both ways", all: "all of these" };
function byWorkload() {
  curves("by-workload", DATA.by_workload.map(row => [`${row.name} (${WORKLOADS[row.name] || row.name})`, row.curve]));
  read("by-workload", DATA.by_workload.length > 1 ? "Single calls, by what the callee does: a curve far right of “null” shows what costs time: disk, network or processor." :
    "All calls are of one workload here, so there is nothing to compare.");
}

let ifSize, ifRisk, ifCrashes, ifT;
const stepAt = (steps, t) => steps.reduce((s, [from, value]) => from <= t ? value : s, null);
function whatIfControls() {
  const sizes = DATA.what_if.sizes;
  if (sizes.length) {
    ifSize = choice("what-if", "Group size", sizes.map((s, at) => [at, s.size]), () => { crashesOf(); whatIf(); });
    const risks = sizes[0].risks.map(r => [r.eps_ppm, `${r.eps_ppm / 1e4} % of rounds`]);
    ifRisk = choice("what-if", "Risk", risks, whatIf);
    ifRisk.value = "1000";
    ifCrashes = node("select");
    ifCrashes.addEventListener("change", whatIf);
    control("what-if", "Crashes f", ifCrashes);
    crashesOf();
  }
  ifT = node("input");
  Object.assign(ifT, { type: "range", min: 5, max: 11, step: 0.02, value: 8 });
  const p999 = DATA.individual.quantiles_ns && DATA.individual.quantiles_ns.p99_9;
  if (p999) ifT.value = Math.log10(p999);
  ifT.addEventListener("input", () => { whatIf(); cdf(); });
  control("what-if", "Time-out T", ifT);
}
function crashesOf() {
  const size = DATA.what_if.sizes[Number(ifSize.value)].size, most = Math.floor((size - 1) / 2);
  const before = ifCrashes.value;
  ifCrashes.replaceChildren(...Array.from({ length: most }, (_, i) => { const o = node("option", i + 1); o.value = i + 1; return o; }));
  ifCrashes.value = before && before <= most ? before : most;
}
function answer(name, value, note) {
  const made = node("div"), told = node("dd", value);
  made.append(node("dt", name), told);
  if (note) told.append(node("small", note));
  return made;
}
function whatIf() {
  MARK.t_ns = 10 ** Number(ifT.value);
  const w = DATA.what_if, t = MARK.t_ns, made = node("dl", undefined, "answers");
  ifT.setAttribute("aria-valuetext", time(t));
  made.append(answer("T", time(t), "waiting time for a reply"));
  const size = ifSize && w.sizes[Number(ifSize.value)];
  const risk = size && size.risks.find(r => r.eps_ppm === Number(ifRisk.value));
  const s = risk ? stepAt(risk.steps, t) : null;
  if (s === null) {
    made.append(answer("Slow members s", "not known", size ? "T is shorter than any time-out in the data" : "the data have no group of 3 to 9 members"));
  } else {
    const f = Number(ifCrashes.value), rare = size.sessions * risk.eps_ppm / 1e6 < 10;
    made.append(answer("Slow members s", s, `maximum number later than T, except in the risk's share of rounds${rare ? "; extrapolated: fewer than ten rounds are that rare" : ""}`));
    const all = f + Math.min(f, s) + 1;
    made.append(answer("Replicas", all, `f + min(f, s) + 1; a majority needs ${2 * f + 1}. Advice only`));
  }
  const period = w.period_ms;
  made.append(answer("Detection of a crash", period === null ? `T + a period` : time(t + period * 1e6),
    period === null ? "a period is the time between two calls" : `T and the ${time(period * 1e6)} between two calls`));
  // The mistakes of the next shorter time-out in the data: never fewer than those of T.
  const found = w.mistakes.filter(([ms]) => ms * 1e6 <= t * 1.0001).pop();
  if (found) {
    const month = v => few(v * 30);
    const [ms, day, low, high] = found;
    made.append(answer("Mistakes in a month", month(day),
      `one node of another, in episodes, at ${time(ms * 1e6)}; 95 %: ${month(low)} to ${month(high)}${day === 0 ? ". None was observed: extrapolated" : ""}`));
  } else made.append(answer("Mistakes in a month", "not known", "T is shorter than any time-out in the data"));
  part("what-if", "figure").replaceChildren(made);
  read("what-if", "Move T with the mouse or the arrow keys: a longer one makes fewer mistakes and saves replicas, but a crash is found later. Mistakes count all pairs of the deployment.");
}

function bars(id, name, values, labels, xName, yName) {
  const most = Math.max(...values, 1);
  const step = 10 ** Math.floor(Math.log10(most / 2 || 1)), ticks = [];
  const every = Math.max(1, step * (most / step > 10 ? 5 : most / step > 5 ? 2 : 1));
  for (let v = 0; v <= most; v += every) ticks.push([v, count(v)]);
  const x = { from: 0, to: values.length, name: xName, ticks: [] };
  const { svg, area, atX, atY, place } = frame(id, name, x, { from: 0, to: most * 1.08, ticks, name: yName }, 260, 70);
  const sum = values.reduce((a, b) => a + b, 0);
  const wide = (area.right - area.left) / values.length;
  values.forEach((value, i) => {
    const bar = draw("rect", { x: atX(i) + wide * 0.1, width: wide * 0.8, y: atY(value), height: area.bottom - atY(value), style: "fill: var(--c0)" });
    svg.append(hint(bar, `${labels[i]}: ${count(value)} (${share(sum ? value / sum : 0)})`));
    if (i % Math.ceil(34 / wide) === 0) svg.append(draw("text", { class: "tick", x: atX(i + 0.5), y: area.bottom + 16, "text-anchor": "middle" }, labels[i]));
    if (value && wide > 34) svg.append(draw("text", { x: atX(i + 0.5), y: atY(value) - 4, "text-anchor": "middle" }, share(value / sum).replace(/\.0+ /, " ")));
  });
  place.replaceChildren(svg);
}
const VARIANTS = [["action", "remote, with a floor"], ["remote", "remote"], ["service", "callee's own delay"], ["seed", "with the observer itself"]];
let slowVariant, jaccardVariant;
function slowHistogram() {
  const told = (DATA.slow_histogram || {})[slowVariant.value];
  const id = "slow-histogram";
  if (!told || !told.observer_days) none(id, "No observer was in a group of the requested size.");
  else bars(id, "Histogram of slow nodes", told.counts, told.counts.map((_, i) => i), "Slow nodes to one observer on one day", "Observers and days");
  read(id, `One bar for each number of slow nodes${told ? ` in groups of ${told.group_size}` : ""}: a tall bar at 0 means that mostly no node is slow. A node is slow if its p90 is at least twice the least that the observer saw.`);
}
function jaccard() {
  const told = (DATA.jaccard || {})[jaccardVariant.value];
  const labels = Array.from({ length: 10 }, (_, i) => `${(i / 10).toFixed(1)}–`);
  if (!told || !told.pairs) none("jaccard", "No two observers of a group both saw a slow node.");
  else bars("jaccard", "Histogram of Jaccard indexes", told.histogram, labels, "Jaccard index of two observers (bins of 0.1)", "Pairs of observers and days");
  read("jaccard", told && told.pairs ? `At the right end two observers see the same nodes as slow, at the left end different ones: mean ${told.mean.toFixed(2)}, ${share(told.identical_share)} of ${count(told.pairs)} pairs are identical.` :
    "If two observers see the same nodes as slow, the nodes are slow; if they differ, check the links.");
}
let correlationOf;
function correlations() {
  const c = DATA.correlations, id = "correlations";
  if (!c.rows.length) return noHosts(id);
  const [kind, key] = correlationOf.value.split(" ");
  const rows = c.rows.map(row => [row.metric, row[kind][key], key === "pearson_r" ? row[kind].pearson_r_95 : null, row[kind].n]);
  const reach = Math.max(0.05, ...rows.flatMap(([, r, range]) => [r, ...(range || [])].map(v => Math.abs(v || 0)))) * 1.05;
  const edge = Math.min(1, reach), tick = edge > 0.5 ? 0.5 : edge > 0.2 ? 0.2 : edge > 0.1 ? 0.1 : 0.05, ticks = [];
  for (let i = -Math.floor(edge / tick); i <= edge / tick; i++) ticks.push([i * tick, Number((i * tick).toFixed(2)).toString()]);
  const left = Math.min(170, 24 + 7 * Math.max(...rows.map(([name]) => name.length)));
  const x = { from: -edge, to: edge, ticks, name: "Correlation coefficient r (no unit)" };
  const { svg, atX, area, place } = frame(id, "Correlation bars", x, { from: 0, to: rows.length, ticks: [], name: "Metric" }, 70 + 26 * rows.length, left);
  rows.forEach(([name, r, range, n], i) => {
    const y = area.top + 26 * i + 4;
    svg.append(draw("text", { x: left - 6, y: y + 14, "text-anchor": "end" }, name.length > 20 ? `${name.slice(0, 19)}…` : name));
    if (r === null || r === undefined) return svg.append(draw("text", { x: atX(0) + 6, y: y + 14 }, "none"));
    const [a, b] = [atX(Math.min(0, r)), atX(Math.max(0, r))];
    const interval = range ? `, 95 % interval ${range[0].toFixed(3)} to ${range[1].toFixed(3)}` : "";
    svg.append(hint(draw("rect", { x: a, width: Math.max(1, b - a), y: y + 2, height: 14, style: "fill: var(--c0)" }), `${name}: r = ${r.toFixed(4)}${interval}, ${count(n)} calls`));
    if (range) svg.append(draw("path", { d: `M${atX(range[0])} ${y + 9}H${atX(range[1])}M${atX(range[0])} ${y + 4}v10M${atX(range[1])} ${y + 4}v10`, style: "stroke: var(--text); stroke-width: 1.5" }));
  });
  svg.append(draw("line", { class: "axis", x1: atX(0), x2: atX(0), y1: area.top, y2: area.bottom }));
  place.replaceChildren(svg);
  read(id, `The longer a bar, the stronger the correlation of latency with the metric of the callee; a whisker (95 %) that crosses 0 means that there may be none. ${rows.length} strongest of ${c.known}. A correlation need not be a cause.`);
}
