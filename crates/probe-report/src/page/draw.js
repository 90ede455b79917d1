// Axes, marks and controls of figures.
const DATA = JSON.parse(document.getElementById("data").textContent);
const COLOURS = 5, DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4"];

addEventListener("error", event => {
  const told = document.getElementById("failed");
  told.hidden = false;
  told.textContent = `A figure could not be drawn: ${event.message}`;
});

const part = (id, kind) => document.querySelector(`#${id} .${kind}`);
function read(id, sentence) { part(id, "read").textContent = sentence; }
function none(id, why) { part(id, "figure").replaceChildren(node("p", why, "none")); }
function noHosts(id) {
  none(id, "The data have no resources of hosts.");
  read(id, "Agents sample them; imported data have none.");
}
function node(tag, text, kind) {
  const made = document.createElement(tag);
  if (text instanceof Node) made.append(text); else if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
function draw(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
function picture(width, height, name) {
  return draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name });
}
// A hint on a mark: shown on hovering, and read by screen readers.
function hint(made, text) { made.append(draw("title", {}, text)); return made; }

function time(ns) {
  if (ns === null || ns === undefined) return "never";
  const [value, unit] = ns < 1e3 ? [ns, "ns"] : ns < 1e6 ? [ns / 1e3, "µs"] : ns < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
}
function tickTime(ns) {
  return ns < 1e6 ? `${ns / 1e3} µs` : ns < 1e9 ? `${ns / 1e6} ms` : `${ns / 1e9} s`;
}
function count(value) { return Math.round(value).toLocaleString("en").replace(/,/g, "\u202f"); }
function share(part) {
  const percent = part * 100;
  return percent === 0 || percent >= 0.1 ? `${percent.toFixed(percent < 10 ? 2 : 1)} %` : `${percent.toPrecision(2)} %`;
}
function few(value) { return value === 0 ? "0" : value >= 100 ? count(value) : Number(value.toPrecision(2)).toString(); }
function date(day) { return new Date(day * 864e5).toISOString().slice(0, 10); }

function control(id, name, made) {
  const label = node("label", name);
  label.append(made);
  part(id, "controls").append(label);
  return made;
}
// A choice of one option; hidden if there is only one.
function choice(id, name, options, then) {
  const made = node("select");
  for (const [value, text] of options) {
    const one = node("option", text);
    one.value = value;
    made.append(one);
  }
  made.addEventListener("change", then);
  return options.length > 1 ? control(id, name, made) : made;
}

// The area of a figure with two axes. An axis is { from, to, log, ticks: [[value, text]], name }.
function frame(id, name, x, y, height, left = 64) {
  const place = part(id, "figure");
  const width = Math.max(280, place.clientWidth || 640);
  const svg = picture(width, height, name);
  const area = { left, right: width - 14, top: 14, bottom: height - 44 };
  const scale = (axis, low, high) => {
    const of = value => axis.log ? Math.log10(Math.max(value, 1e-30)) : value;
    const [a, b] = [of(axis.from), of(axis.to)];
    return value => low + (high - low) * Math.min(1, Math.max(0, (of(value) - a) / (b - a || 1)));
  };
  const atX = scale(x, area.left, area.right), atY = scale(y, area.bottom, area.top);
  let last = -1e9;
  for (const [value, text] of x.ticks) {
    const px = atX(value);
    svg.append(draw("line", { class: "grid", x1: px, x2: px, y1: area.top, y2: area.bottom }));
    if (px - last < text.length * 7 + 6) continue;
    last = px;
    const anchor = px > area.right - 14 ? "end" : "middle";
    svg.append(draw("text", { class: "tick", x: px, y: area.bottom + 16, "text-anchor": anchor }, text));
  }
  for (const [value, text] of y.ticks) {
    const py = atY(value);
    svg.append(draw("line", { class: "grid", x1: area.left, x2: area.right, y1: py, y2: py }));
    svg.append(draw("text", { class: "tick", x: area.left - 6, y: py + 4, "text-anchor": "end" }, text));
  }
  svg.append(draw("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }));
  svg.append(draw("line", { class: "axis", x1: area.left, x2: area.left, y1: area.top, y2: area.bottom }));
  svg.append(draw("text", { x: (area.left + area.right) / 2, y: height - 6, "text-anchor": "middle" }, x.name));
  const middle = (area.top + area.bottom) / 2;
  svg.append(draw("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, y.name));
  return { svg, area, atX, atY, place };
}
// Powers of ten within a range of nanoseconds.
function decades(from, to) {
  const ticks = [];
  for (let power = Math.ceil(Math.log10(from) - 1e-9); power <= Math.log10(to) + 1e-9; power++) ticks.push([10 ** power, tickTime(10 ** power)]);
  return ticks;
}
function legend(names) {
  const made = node("ul", undefined, "legend");
  names.forEach((name, at) => {
    const sample = draw("svg", { width: 30, height: 8, "aria-hidden": "true" });
    sample.append(stroke(draw("line", { x1: 0, x2: 30, y1: 4, y2: 4, class: "curve" }), at));
    const item = node("li");
    item.append(sample, name);
    made.append(item);
  });
  return made;
}
// Curves differ by colour and by dashes.
function stroke(made, at) {
  made.setAttribute("style", `stroke: var(--c${at % COLOURS}); stroke-dasharray: ${DASHES[at % DASHES.length] || "none"}`);
  return made;
}
