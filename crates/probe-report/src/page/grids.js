// The matrix, the timeline and the scatter plot; then everything is drawn.
const QUANTILES = [["4", "p50 (median)"], ["5", "p90"], ["6", "p99"]];
const SLOW_MIN = 0.5;
let matrixOf;
// From pale yellow to deep red; text on it is dark or light in both schemes.
function heat(at) { return `hsl(${48 - 48 * at} ${80 - 10 * at}% ${90 - 56 * at}%)`; }
function verdicts() {
  const slow = new Map();
  for (const n of DATA.slow_nodes || []) if (n.slow_observations > n.observations * SLOW_MIN) slow.set(n.node, n);
  return slow;
}
function matrixKey(low, high) {
  const key = node("div", undefined, "key"), item = (kind, text, style) => {
    const made = node("span"), box = node("i", undefined, kind);
    if (style) box.style.background = style;
    made.append(box, text);
    key.append(made);
  };
  item("ramp", `${time(low)} to ${time(high)}, log colour`, `linear-gradient(90deg, ${[0, .25, .5, .75, 1].map(heat).join(", ")})`);
  item("silent", "silent: too few replies for this quantile");
  item("slow", "called slow by this caller");
  return key;
}
function matrix() {
  const rows = DATA.matrix, id = "matrix";
  if (!rows.length) return none(id, "There are no calls.");
  const column = Number(matrixOf.value), cells = new Map(rows.map(row => [`${row[0]} ${row[1]}`, row]));
  const nodes = [...new Set(rows.flatMap(row => [row[0], row[1]]))].sort((a, b) => a - b);
  const seen = rows.map(row => row[column]).filter(ns => ns);
  const low = Math.min(...seen), high = Math.max(...seen);
  const pairs = new Map(DATA.slow_pairs.map(([from, to, days]) => [`${from} ${to}`, days])), slow = verdicts();
  const name = n => DATA.nodes[n] ?? `node ${n}`, words = nodes.length <= 30;
  const made = node("table", undefined, "matrix"), head = node("tr"), top = node("thead"), body = node("tbody");
  head.append(node("th", "callee \\ caller"));
  for (const from of nodes) { const th = node("th", node("span", name(from))); th.scope = "col"; th.title = name(from); head.append(th); }
  top.append(head);
  for (const to of nodes) {
    const line = node("tr"), th = node("th", name(to) + (slow.has(to) ? " (slow)" : ""), slow.has(to) ? "slow" : "");
    th.scope = "row";
    th.title = name(to);
    line.append(th);
    for (const from of nodes) {
      const row = cells.get(`${from} ${to}`), td = node("td");
      if (row) {
        const ns = row[column], days = pairs.get(`${from} ${to}`);
        td.title = `${name(from)} calls ${name(to)}: ${count(row[3])} calls on ${row[2]} days; p50 ${time(row[4])}, p90 ${time(row[5])}, p99 ${time(row[6])}` + (days ? `; slow on ${days} days` : "");
        if (ns === null) { td.className = "silent"; td.textContent = words ? "silent" : ""; }
        else {
          const at = high > low ? Math.log(ns / low) / Math.log(high / low) : 0;
          td.style.background = heat(at);
          td.className = at > 0.5 ? "deep" : "light";
          td.textContent = words ? time(ns) : "";
        }
        if (days) td.classList.add("slow");
      } else { td.textContent = words ? "·" : ""; td.title = "never in one group"; }
      line.append(td);
    }
    body.append(line);
  }
  made.append(top, body);
  part(id, "figure").replaceChildren(...(seen.length ? [matrixKey(low, high)] : []), made);
  read(id, "A column is a caller, a row a callee, a dot a pair that never shared a group. A dark row is a slow callee, a dark column a slow observer, a single dark cell a link. " +
    "Over several days a cell is the median of the days; the row is marked if more than half of observers and days call the callee slow.");
}

// Between two ticks: ten minutes to thirty days.
const STEPS_S = [600, 1800, 3600, 10800, 21600, 86400, 604800, 2592000], TICKS_MAX = 8;
function timeline() {
  const t = DATA.timeline, id = "timeline", [from, to] = t.span_s;
  const measured = t.nodes.filter(n => n.windows > 0);
  read(id, `Time runs to the right, from the first to the last window with observations of a node; a darker bar means that more observers see the node as slow. In windows of ${Math.round((t.window_s || 600) / 60)} minutes, from ten calls on.`);
  if (!measured.length) return none(id, "No window has enough calls to identify slow nodes.");
  const shown = measured.filter(n => n.runs.length);
  if (!shown.length) return none(id, `None of ${measured.length} nodes was slow to most observers in any window.`);
  const ends = shown.flatMap(n => n.runs.map(([day, window, windows]) => [day * 86400 + window * t.window_s, day * 86400 + (window + windows) * t.window_s]));
  const begin = Math.min(...ends.map(e => e[0])), end = Math.max(...ends.map(e => e[1]));
  const step = STEPS_S.find(s => (to - from) / s <= TICKS_MAX) || STEPS_S[STEPS_S.length - 1], ticks = [];
  const midnight = s => s % 86400 === 0, clock = s => new Date(s * 1000).toISOString().slice(11, 16);
  for (let s = Math.ceil(from / step) * step; s <= to; s += step) ticks.push([s, midnight(s) ? date(s / 86400) : clock(s)]);
  const whenever = date(from / 86400) === date((to - 1) / 86400) ? `${date(from / 86400)} (UTC)` : "Time (UTC)";
  const left = Math.min(150, 24 + 7 * Math.max(...shown.map(n => n.name.length)));
  const x = { from, to, ticks, name: whenever };
  const { svg, atX, area, place } = frame(id, "Timeline of slow nodes", x, { from: 0, to: 1, ticks: [], name: "Node" }, 64 + 22 * shown.length, left);
  shown.forEach((n, i) => {
    const y = area.top + 22 * i + 2;
    const name = draw("text", { x: left - 6, y: y + 14, "text-anchor": "end" }, n.name.length > 18 ? `${n.name.slice(0, 17)}…` : n.name);
    svg.append(hint(name, n.name));
    for (const [day, window, windows, observers, slow] of n.runs) {
      const a = day * 86400 + window * t.window_s, b = a + windows * t.window_s;
      const bar = draw("rect", { x: atX(a), width: Math.max(1.5, atX(b) - atX(a)), y, height: 17, style: `fill: var(--bad); fill-opacity: ${(0.25 + 0.75 * slow / Math.max(1, observers)).toFixed(2)}` });
      const when = s => new Date(s * 1000).toISOString().slice(0, 16).replace("T", " ");
      svg.append(hint(bar, `${n.name} from ${when(a)} to ${when(b)}: slow in ${slow} of ${observers} verdicts of observers`));
    }
  });
  const rest = measured.length - shown.length;
  place.replaceChildren(svg, node("p", `${rest ? `${rest} more nodes were never slow to most observers. ` : ""}Slow from ${new Date(begin * 1000).toISOString().slice(0, 16).replace("T", " ")} to ${new Date(end * 1000).toISOString().slice(0, 16).replace("T", " ")} at the outermost.`, "none"));
}

let scatterOf;
function scatter() {
  const s = DATA.scatter, id = "scatter";
  if (!s.grids.length) return noHosts(id);
  const grid = s.grids[Number(scatterOf.value)], cells = grid.cells;
  const rows = s.latency_from_ns, columns = s.metric_from;
  let [top, right, bottom, most] = [0, 0, rows.length, 1];
  for (let i = 0; i < cells.length; i += 3) {
    top = Math.max(top, cells[i]); bottom = Math.min(bottom, cells[i]); right = Math.max(right, cells[i + 1]); most = Math.max(most, cells[i + 2]);
  }
  if (!cells.length) return none(id, "This metric has no values beside calls.");
  const edge = (of, i) => of[i] ?? of[of.length - 1];
  // The first column begins at zero, which has no logarithm.
  const at = i => i === 0 ? 0.5 : edge(columns, i);
  const x = { from: at(0), to: Math.max(1, at(right + 1)), log: true, name: `${grid.metric}, value of the second (log; from 0)`, ticks: [[at(0), "0"]] };
  for (let p = 0; 10 ** p <= x.to; p++) x.ticks.push([10 ** p, p > 3 ? `1e${p}` : String(10 ** p)]);
  const y = { from: rows[bottom], to: edge(rows, top + 1), log: true, name: "Latency (log)" };
  y.ticks = decades(y.from, y.to);
  const { svg, atX, atY, place } = frame(id, "Scatter of latency and a metric", x, y, 320, 70);
  for (let i = 0; i < cells.length; i += 3) {
    const [row, column, n] = [cells[i], cells[i + 1], cells[i + 2]];
    const [x1, x2, y1, y2] = [atX(at(column)), atX(at(column + 1)), atY(edge(rows, row + 1)), atY(rows[row])];
    const made = draw("rect", { x: x1, width: Math.max(1.5, x2 - x1), y: y1, height: Math.max(1.5, y2 - y1), style: `fill: var(--c0); fill-opacity: ${(0.15 + 0.85 * Math.log1p(n) / Math.log1p(most)).toFixed(2)}` });
    svg.append(hint(made, `${count(n)} calls of ${time(rows[row])} and longer, at ${few(column ? edge(columns, column) : 0)} and more`));
  }
  place.replaceChildren(svg);
  read(id, "Each cell is a number of calls, darker for more: a cloud that climbs to the right means that calls are later when the metric of the callee is high. All workloads together.");
}

function everything() {
  whatIf(); cdf(); bySize(); byWorkload(); matrix(); timeline(); slowHistogram(); jaccard(); correlations(); scatter();
}
cdfScale = choice("cdf", "Scale", [["share", "share completed"], ["tail", "tail: share later (log)"]], cdf);
whatIfControls();
matrixOf = choice("matrix", "Quantile", QUANTILES, matrix);
matrixOf.value = "5";
slowVariant = choice("slow-histogram", "Definition", VARIANTS, slowHistogram);
jaccardVariant = choice("jaccard", "Definition", VARIANTS, jaccard);
correlationOf = choice("correlations", "Of", !DATA.correlations.rows.length ? [] : [["all pearson_r", "all calls"], ["high pearson_r", "calls at or above the p99"],
  ["all pearson_r_ln", "all calls, logarithm of latency"], ["all spearman_r", "all calls, by ranks (Spearman)"]], correlations);
scatterOf = choice("scatter", "Metric", DATA.scatter.grids.map((g, i) => [i, g.metric]), scatter);
everything();
let waiting, width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(everything, 100);
});
document.body.dataset.drawn = "true";
