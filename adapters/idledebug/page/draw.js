// Lines and bars.
import { bound, count, fill, make, write } from "./text.js";

const svg = "http://www.w3.org/2000/svg";

// sparkline draws values as a line from left to right, of at most n values. The bottom is
// 0, or just below the least value.
export function sparkline(element, values, n, fromZero) {
  if (!element.firstChild) {
    element.setAttribute("viewBox", "0 0 100 30");
    element.setAttribute("preserveAspectRatio", "none");
    for (const c of ["area", "line"]) {
      const path = document.createElementNS(svg, "path");
      path.setAttribute("class", c);
      element.append(path);
    }
  }
  const [area, line] = element.children;
  if (values.length < 2) {
    area.setAttribute("d", "");
    line.setAttribute("d", "");
    return;
  }
  const most = Math.max(...values), least = fromZero ? 0 : Math.min(...values);
  const range = Math.max(most - least, fromZero ? 1e-9 : most * 0.02, 1e-9);
  const x = i => 100 - (values.length - 1 - i) * 100 / (n - 1);
  const y = v => 28 - 25 * (v - least) / range;
  const path = values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(2)} ${y(v).toFixed(2)}`).join("");
  line.setAttribute("d", path);
  area.setAttribute("d", `${path}L100 30L${x(0).toFixed(2)} 30Z`);
}

// Bars of less than this many seconds are drawn as one: a tick is longer.
const shortest = 0.007;

// histogram draws buckets as bars. name says of what.
export function histogram(element, buckets, name) {
  const bars = [];
  let below = 0;
  for (const bucket of buckets) {
    if (bucket.upto !== null && bucket.upto < shortest) below += bucket.count;
    else bars.push({ ...bucket });
  }
  if (below) {
    if (!bars.length || bars[0].upto > 2 * shortest) bars.unshift({ upto: shortest, count: below });
    else bars[0].count += below;
  }
  const most = Math.max(1, ...bars.map(bucket => bucket.count));
  const step = Math.ceil(bars.length / 8);
  fill(element, bars, () => {
    const bar = make("div", "bucket");
    bar.append(make("span", "amount"), make("span", "column"), make("span", "bound"));
    return bar;
  }, (bar, bucket, i) => {
    const [amount, column, label] = bar.children;
    write(amount, bucket.count && bucket.count === most ? count(bucket.count) : "");
    column.style.height = bucket.count ? `max(2px, ${(100 * bucket.count / most).toFixed(1)}%)` : "0";
    write(label, (bars.length - 1 - i) % step === 0 ? (bucket.upto === null ? "more" : bound(bucket.upto)) : "");
    bar.title = describe(bucket);
  });
  element.setAttribute("aria-label", `${name}: ${bars.filter(bucket => bucket.count).map(describe).join(", ") || "no connections"}`);
}

const describe = bucket => `${count(bucket.count)} ${bucket.upto === null ? "longer" : "up to " + bound(bucket.upto)}`;
