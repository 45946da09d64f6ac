// The table of connections.
import { byId, bytes, cells, count, duration, fill, phaseName, plain, write } from "./text.js";

const size = 20;
const view = { sort: "idle", page: 1 };
const table = byId("connections");
let pages = 1;

// parameters returns those of the request for what is shown.
export const parameters = () => ({ ...view, size });

// listen calls changed when another part of the list is asked for.
export function listen(changed) {
  const go = page => {
    view.page = Math.min(Math.max(page, 1), Math.max(pages, 1));
    changed();
  };
  byId("first").onclick = () => go(1);
  byId("previous").onclick = () => go(view.page - 1);
  byId("following").onclick = () => go(view.page + 1);
  byId("last").onclick = () => go(pages);
  for (const header of table.querySelectorAll("[data-sort]")) {
    header.firstElementChild.onclick = () => {
      view.sort = header.dataset.sort;
      mark();
      go(1);
    };
  }
  mark();
}

// reset shows nothing until the first page of another tracker comes.
export function reset() {
  fill(table.tBodies[0], []);
  pages = view.page = 1;
  write(byId("where"), "-");
  write(byId("list-note"), "");
}

// mark shows by what the table is sorted.
function mark() {
  for (const header of table.querySelectorAll("[data-sort]")) {
    const order = view.sort === "end" ? "ascending" : "descending";
    if (header.dataset.sort === view.sort) header.setAttribute("aria-sort", order);
    else header.removeAttribute("aria-sort");
  }
}

// show shows a part of the list.
export function show(list) {
  pages = list.pages;
  view.page = Math.min(view.page, Math.max(pages, 1));
  write(byId("where"), `${count(view.page)} of ${count(Math.max(pages, 1))}`);
  for (const id of ["first", "previous"]) byId(id).setAttribute("aria-disabled", view.page <= 1);
  for (const id of ["following", "last"]) byId(id).setAttribute("aria-disabled", view.page >= pages);
  fill(table.tBodies[0], list.rows, cells("label", "minor", "number", "number", "number", "minor", "number minor"), (tr, row) => {
    const [label, phase, idle, age, ends, by, unsent] = tr.children;
    write(label, plain(row.label) || "(no label)");
    label.title = label.textContent;
    write(phase, phaseName(row.phase) + (row.busy ? ", busy" : ""));
    write(idle, duration(row.idle));
    write(age, duration(row.age));
    write(ends, !row.ends_by ? "-" : row.ends_in <= 0 ? "now" : duration(row.ends_in));
    write(by, row.ends_by);
    write(unsent, row.unsent ? bytes(row.unsent) : "");
  });
  write(byId("list-note"), list.live === 0 ? "No connection." : list.live > list.listed ? `The first ${count(list.listed)} of ${count(list.live)} are listed.` : "");
}

// trouble shows why there is no list.
export function trouble(text) { write(byId("list-note"), text); }
