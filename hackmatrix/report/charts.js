// Charts of curves, for pages that define `colours`.
const INKS = ["siphon", "player", "credits", "virus", "cryptog", "daemon", "glitch", "ink"].map(name => colours[name]);
const DASHES = ["none", "7 4", "2 4"];  // where there are more curves than colours
const WIDTH = 420, HEIGHT = 210, LEFT = 68, RIGHT = 8, TOP = 10, BOTTOM = 36;
let charts = [];  // what to call with the place on the axis that is looked at

function short(number, gap = Infinity) {  // numbers that lie so far apart are told apart
  if (number === null) return "–";
  const size = Math.abs(number);
  const apart = size ? Math.floor(Math.log10(size)) - Math.floor(Math.log10(gap)) + 1 : 1;
  const digits = Math.min(Math.max(apart, 3), 15);
  for (const [unit, name] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (size >= unit) return `${Number((number / unit).toPrecision(digits))}${name}`;
  if (size && size < 1e-3)
    return number.toExponential(Math.min(Math.max(apart, 2), 15) - 1).replace(/\.?0*e/, "e");
  return `${Number(number.toPrecision(digits))}`;
}
function ticks(low, high, about) {
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const gap = power * [1, 2, 5, 10].find(each => each * power >= rough);
  const first = Math.ceil(low / gap);
  return Array.from({length: Math.floor(high / gap) - first + 1}, (_, place) => (first + place) * gap);
}
function smooth(points, reach) {  // reach: how many points to each side count
  return points.map(([x], place) => {
    const near = points.slice(Math.max(place - reach, 0), place + reach + 1);
    return [x, near.reduce((sum, [, value]) => sum + value, 0) / near.length];
  });
}
function range(all, most) {  // of more numbers than a function takes arguments
  const low = all.reduce((a, b) => Math.min(a, b), Infinity);
  const high = all.reduce((a, b) => Math.max(a, b), -Infinity);
  const room = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
  return [low < 0 ? low - room : Math.max(low - room, 0), high > most ? high + room : Math.min(high + room, most)];
}
const stepAxis = last => ({last: last || 1, name: "environment steps", at: step => `at step ${step.toLocaleString("en")}`});
const minuteAxis = last => ({last: last || 1, name: "minutes of training",
                             at: minute => `at ${Number(minute.toPrecision(3))} minutes`});

function curve(name, number, xs, values, factor) {  // of the lines that tell its value
  const told = xs.map((x, number) => [x, (values || [])[number] ?? null]).filter(([, value]) => value !== null);
  return {name, ink: INKS[number % INKS.length], dash: DASHES[Math.floor(number / INKS.length) % DASHES.length],
          xs: told.map(([x]) => x), values: told.map(([, value]) => value * factor)};
}
function nearest(xs, x) {
  return xs.reduce((best, each, place) => Math.abs(each - x) < Math.abs(xs[best] - x) ? place : best, 0);
}
function at({xs, values}, x) {  // nothing before a curve begins and after it ends
  return xs.length && xs[0] <= x && x <= xs[xs.length - 1] ? values[nearest(xs, x)] : null;
}
function draw(parent, axis, {title, tags, level, factor, curves}) {
  const place = element(parent, "figure");
  place.style.margin = 0;
  element(place, "h3", "", title).title = tags.join(", ");  // as TensorBoard calls them
  const legend = element(place, "div", "legend");
  const picture = svg(place, "svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title});
  const levels = level === null ? [] : [level];
  const [low, high] = range([...curves.flatMap(({values}) => values), ...levels], factor === 100 ? 100 : Infinity);
  const up = value => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low);
  const across = x => LEFT + (WIDTH - LEFT - RIGHT) * x / axis.last;
  const marks = ticks(low, high, 6), gap = marks.length > 1 ? marks[1] - marks[0] : Infinity;
  for (const value of marks) {
    svg(picture, "line", {x1: LEFT, x2: WIDTH - RIGHT, y1: up(value), y2: up(value), stroke: colours.lines});
    svg(picture, "text", {x: LEFT - 5, y: up(value) + 4, "text-anchor": "end"}, short(value, gap));
  }
  for (const x of ticks(0, axis.last, 4))
    svg(picture, "text", {x: across(x), y: HEIGHT - 19, "text-anchor": x ? "middle" : "start"}, short(x));
  const below = svg(picture, "text", {x: WIDTH - RIGHT, y: HEIGHT - 4, "text-anchor": "end"});
  for (const each of levels) {
    svg(picture, "line", {x1: LEFT, x2: WIDTH - RIGHT, y1: up(each), y2: up(each),
                          stroke: colours.ink, "stroke-dasharray": "2 4", opacity: 0.7});
    svg(picture, "text", {x: WIDTH - RIGHT, y: up(each) - 4, "text-anchor": "end"}, "random player");
  }
  const path = (points, ink, attributes) => svg(picture, "path", {
    d: "M" + points.map(([x, value]) => `${across(x).toFixed(1)} ${up(value).toFixed(1)}`).join("L"),
    fill: "none", stroke: ink, "stroke-linejoin": "round", "stroke-linecap": "round", ...attributes});
  for (const {xs, values, ink, dash} of curves) {
    const points = xs.map((x, number) => [x, values[number]]);
    const reach = xs.length < 10 ? 0 : Math.ceil(xs.length / 50);
    if (!points.length) continue;
    if (reach) path(points, ink, {"stroke-width": 1, opacity: 0.3});
    path(smooth(points, reach), ink, {"stroke-width": 1.8, "stroke-dasharray": dash, "data-curve": 1});
    if (points.length === 1) path([points[0], points[0]], ink, {"stroke-width": 6});
  }
  const line = svg(picture, "line", {y1: TOP, y2: HEIGHT - BOTTOM, stroke: colours.ink, opacity: 0.5});
  const places = curves.flatMap(({xs}) => xs);
  charts.push(now => {
    const there = now === null || !places.length ? axis.last : places[nearest(places, now)];
    line.setAttribute("visibility", now === null ? "hidden" : "visible");
    line.setAttribute("x1", across(there));
    line.setAttribute("x2", across(there));
    below.textContent = now === null ? axis.name : axis.at(there);
    legend.replaceChildren();
    for (const each of curves) {
      const value = now === null ? each.values[each.values.length - 1] ?? null : at(each, there);
      element(legend, "span", "", `${each.name} ${short(value, gap / 10)}`).style.color = each.ink;
    }
  });
  picture.addEventListener("pointermove", event => {
    const box = picture.getBoundingClientRect();
    look(((event.clientX - box.left) * WIDTH / box.width - LEFT) / (WIDTH - LEFT - RIGHT) * axis.last);
  });
  picture.addEventListener("pointerleave", () => look(null));
}
function look(now) { for (const show of charts) show(now); }

function showGames() {  // each in a frame before the script that holds its page
  for (const told of document.querySelectorAll("script[data-game]")) {
    const frame = told.previousElementSibling;
    const fit = () => { frame.style.height = `${frame.contentDocument.documentElement.offsetHeight + 2}px`; };
    frame.addEventListener("load", fit);
    window.addEventListener("resize", fit);
    frame.srcdoc = JSON.parse(told.textContent);
  }
}
