// The table of connections.
import { byId, bytes, cells, chosenPhase, count, duration, fill, make, options, phaseName, phaseOptions, plain, write } from "./text.js";

const size = 20;
const view = { sort: "idle", phase: null, page: 1 }; // a phase of null is all
const table = byId("connections"), body = table.tBodies[0];
let pages = 1;

// parameters returns those of the request for what is shown.
export function parameters() {
  const p = { sort: view.sort, page: view.page, size };
  if (view.phase !== null) p.phase = view.phase;
  return p;
}

// listen calls changed when another part of the list is asked for, and end with the row
// of a connection whose button was pressed.
export function listen(changed, end) {
  const go = page => {
    view.page = Math.min(Math.max(page, 1), Math.max(pages, 1));
    changed();
  };
  byId("first").onclick = () => go(1);
  byId("previous").onclick = () => go(view.page - 1);
  byId("following").onclick = () => go(view.page + 1);
  byId("last").onclick = () => go(pages);
  byId("filter").onchange = e => {
    view.phase = chosenPhase(e.target.value);
    go(1);
  };
  for (const header of table.querySelectorAll("[data-sort]")) {
    header.firstElementChild.onclick = () => {
      view.sort = header.dataset.sort;
      mark();
      go(1);
    };
  }
  body.onclick = e => {
    const row = e.target.closest("button") && e.target.closest("tr");
    if (row) end(row.shown);
  };
  mark();
}

// reset shows nothing until the first page of another tracker comes.
export function reset() {
  fill(body, []);
  pages = 1;
  write(byId("where"), "-");
  for (const id of ["held", "list-note"]) write(byId(id), "");
  view.page = 1;
  view.phase = null;
  byId("filter").value = "";
}

// mark shows by what the table is sorted.
function mark() {
  for (const header of table.querySelectorAll("[data-sort]")) {
    const order = view.sort === "end" ? "ascending" : "descending";
    if (header.dataset.sort === view.sort) header.setAttribute("aria-sort", order);
    else header.removeAttribute("aria-sort");
  }
}

// phases sets the phases that can be chosen.
export function phases(list) {
  options(byId("filter"), phaseOptions(list));
}

// held reports whether rows must not move, as somebody is about to press a button.
const held = () => body.matches(":hover") && matchMedia("(hover: hover)").matches && body.querySelector("button") !== null || body.contains(document.activeElement);

// show shows a part of the list. Asked says that somebody has asked for it just now.
export function show(list, asked) {
  const steer = list.rows.some(c => c.id); // rows have ids if they can be ended
  pages = list.pages;
  if (view.page > Math.max(pages, 1)) view.page = Math.max(pages, 1);
  write(byId("where"), `${count(view.page)} of ${count(Math.max(pages, 1))}`);
  for (const id of ["first", "previous"]) byId(id).setAttribute("aria-disabled", view.page <= 1);
  for (const id of ["following", "last"]) byId(id).setAttribute("aria-disabled", view.page >= pages);
  const hold = held() && !asked;
  write(byId("held"), hold ? "held still while you point at it" : "");
  table.classList.toggle("steered", steer);
  if (hold) return;
  fill(body, list.rows, cells("label", "minor", "number", "number", "number", "minor", "number minor", "number minor", "act"), (row, c) => {
    row.shown = { ...c, tracker: list.tracker };
    const [label, phase, idle, age, ends, next, misses, unsent, act] = row.children;
    write(label, plain(c.label) || "(no label)");
    label.title = label.textContent;
    write(phase, phaseName(c.phase) + (c.busy ? ", busy" : ""));
    write(idle, duration(c.idle));
    write(age, duration(c.age));
    write(ends, c.ends_by === "none" ? "-" : c.ends_in <= 0 ? "now" : duration(c.ends_in));
    ends.title = c.ends_by === "none" ? "no limit ends it" : "by " + c.ends_by;
    write(next, c.next ? `${c.next} (${c.next_by})` : "");
    write(misses, c.misses);
    write(unsent, c.unsent ? bytes(c.unsent) : "");
    if (steer && !act.firstChild) act.append(make("button", "quiet", "End…"));
    if (steer) act.firstChild.setAttribute("aria-label", "End " + label.textContent);
  });
  const left = Math.min(size, list.total - (list.page - 1) * size) - list.rows.length;
  write(byId("list-note"), list.total === 0 ? "No connection." : left > 0 && list.rows.length < size ? `${count(left)} of this page have ended since.` : "");
}

// trouble shows why there is no list.
export function trouble(text) { write(byId("list-note"), text); }
