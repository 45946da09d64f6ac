// How numbers and names are written, and elements made.

const grouped = new Intl.NumberFormat("en");

export const count = n => grouped.format(n);

// rate writes a number per second.
export function rate(n) {
  if (n === 0) return "0";
  return n < 10 ? n.toFixed(1) : grouped.format(Math.round(n));
}

// bytes writes a number of bytes.
export function bytes(n) {
  for (const [unit, name] of [[1e9, " GB"], [1e6, " MB"], [1e3, " kB"]]) {
    if (n >= unit) return (n / unit).toFixed(n < 10 * unit ? 1 : 0) + name;
  }
  return n + " B";
}

// counted writes a number of things.
export const counted = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

// duration writes seconds in one or two units.
export function duration(s) {
  if (s < 0) return "-" + duration(-s);
  if (s === 0) return "0 s";
  for (const [unit, name, most] of [[1e-6, " µs", 1000], [1e-3, " ms", 1000], [1, " s", 60]]) {
    const n = s / unit, rounded = n < 9.95 ? Math.round(n * 10) / 10 : Math.round(n);
    if (rounded < most) return rounded + name;
  }
  s = Math.round(s);
  const two = (big, unit, small, less) => big + unit + (small ? " " + small + less : "");
  if (s < 3600) return two(Math.floor(s / 60), " min", s % 60, " s");
  if (s < 86400) return two(Math.floor(s / 3600), " h", Math.floor(s % 3600 / 60), " min");
  return two(Math.floor(s / 86400), " d", Math.floor(s % 86400 / 3600), " h");
}

// upTo writes the bound of a quantile. A tick is a millisecond at least.
export const upTo = s => s < 0.001 ? "< 1 ms" : "≤ " + duration(s);

// bound writes the bound of a bucket briefly.
export function bound(s) {
  for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
    if (s >= 2 * unit || unit === 1 && s >= 1) return Math.round(s / unit * 10) / 10 + " " + name;
  }
  return Math.round(s * 1000) + " ms";
}

export const clock = text => new Date(text).toLocaleTimeString("en-GB");

// plain writes what comes from a peer: characters that are not seen, or that turn the
// text around, are written as their numbers.
export function plain(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, c => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

export const phaseName = name => name === "" ? "(unnamed)" : plain(name);

export const byId = id => document.getElementById(id);

// write sets a text, if it has changed.
export function write(element, text) {
  text = String(text);
  if (element.textContent !== text) element.textContent = text;
}

// make returns a new element.
export function make(tag, className = "", text = "") {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text) e.textContent = text;
  return e;
}

// fill gives parent a child for each item. Children stay, so that focus and selection do.
export function fill(parent, items, create, update) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  items.forEach((item, i) => {
    let child = parent.children[i];
    if (!child) parent.append(child = create());
    update(child, item, i);
  });
}

// cells returns a function that creates a row with cells of these classes.
export const cells = (...classes) => () => {
  const row = make("tr");
  row.append(...classes.map(c => make("td", c)));
  return row;
};

// options gives a select one option for each [value, text], and keeps its choice.
export function options(select, choices) {
  const key = JSON.stringify(choices);
  if (select.dataset.choices === key) return;
  const chosen = select.value;
  select.dataset.choices = key;
  select.replaceChildren(...choices.map(([value, text]) => {
    const o = make("option", "", text);
    o.value = value;
    return o;
  }));
  if (choices.some(([value]) => value === chosen)) select.value = chosen;
}
