// Operations, and the dialogs that change something.
import { byId, chosenPhase, count, duration, fill, make, options, phaseOptions, plain, write } from "./text.js";
import { post } from "./server.js";

let changed = () => {};
let name = ""; // of the tracker that is shown
let known = { phases: [], settings: [] };

// open shows a dialog. send makes a request of its form.
function open(id, subject, send) {
  const dialog = byId(id), form = dialog.querySelector("form"), error = dialog.querySelector(".error");
  write(dialog.querySelector(".name"), subject);
  write(error, "");
  dialog.querySelector(".cancel").onclick = () => dialog.close();
  form.onsubmit = async e => {
    e.preventDefault();
    const submit = form.querySelector(".strong");
    submit.disabled = true;
    try {
      await send(new FormData(form));
      dialog.close();
      changed();
    } catch (problem) {
      write(error, problem.message);
    } finally {
      submit.disabled = false;
    }
  };
  dialog.showModal();
}

// number reads a number that may be left out.
function number(text, what) {
  if (text.trim() === "") return 0;
  const n = Number(text);
  if (!Number.isFinite(n)) throw new Error(`${what} is "${text}"; it must be a number`);
  return n;
}

function drain() {
  const tracker = name;
  open("drain", plain(tracker), form => post("drain", tracker, { duration: form.get("duration"), close_delay: form.get("close_delay"), force_after: form.get("force_after") }));
}

function shed() {
  const tracker = name;
  options(byId("shed").querySelector("select"), phaseOptions(known.phases));
  open("shed", plain(tracker), form => {
    const body = {};
    for (const key of ["idle", "cause", "duration", "close_delay"]) body[key] = form.get(key);
    body.fraction = number(form.get("fraction"), "The percentage") / 100;
    body.max = number(form.get("max"), "The number");
    const phase = chosenPhase(form.get("phase"));
    if (phase !== null) body.phase = phase;
    return post("shed", tracker, body);
  });
}

// end asks whether a connection is to be ended.
export function end(row) {
  open("end", plain(row.label) || "(no label)", form => post("end", row.tracker, { id: row.id, cause: form.get("cause") }));
}

// change shows the limits of a phase, and sends those that were changed.
export function change(phase) {
  const before = Object.fromEntries(phase.rest.map(l => [l.name, l.value]));
  const fields = byId("change").querySelector(".fields");
  fields.replaceChildren(...known.settings.map(setting => {
    const label = make("label", "", setting), input = make("input");
    input.name = setting;
    input.value = before[setting] || "";
    input.autocomplete = "off";
    label.append(input);
    return label;
  }));
  open("change", phase.name === "" ? "the phase without a name" : plain(phase.name), form => {
    const limits = {};
    for (const [key, value] of form) {
      if (value.trim() !== (before[key] || "")) limits[key] = value.trim();
    }
    if (!Object.keys(limits).length) return null;
    return post("limits", phase.tracker, { phase: phase.name, limits });
  });
}

// listen calls then when something was changed.
export function listen(then) {
  changed = then;
  byId("begin-drain").onclick = drain;
  byId("begin-shed").onclick = shed;
  byId("running").onclick = async e => {
    const button = e.target.closest("button");
    if (!button) return;
    try {
      const { tracker, id } = button.closest("li").shown;
      await post("operation", tracker, { id, do: button.dataset.do });
    } catch { /* it has finished meanwhile, which the next look shows */ }
    changed();
  };
}

const finished = new Map(); // ids of operations, and whether they were seen to have finished

// show shows the operations, and returns what is to be announced.
export function show(state) {
  name = state.tracker;
  known = { phases: state.phases, settings: state.settings || [] };
  byId("operations").hidden = !state.steer && state.operations.length === 0;
  byId("begin").hidden = !state.steer || state.closed;
  byId("nothing-runs").hidden = state.operations.length > 0;
  let news = "";
  fill(byId("running"), [...state.operations].reverse(), item, (li, o) => {
    li.shown = { ...o, tracker: state.tracker };
    const title = (o.kind === "drain" ? "Drain" : "Shed") + (o.cause ? `, ${plain(o.cause)}` : "");
    const [head, bar, detail] = li.children, [label, pause, cancel] = head.children;
    const over = o.met - o.left;
    write(label, title + (o.finished ? ": finished" : o.paused ? ": paused" : ""));
    li.classList.toggle("finished", o.finished);
    bar.max = Math.max(o.met, 1);
    bar.value = o.finished && o.met === 0 ? 1 : over;
    bar.setAttribute("aria-label", `${title}: ${count(over)} of ${count(o.met)}`);
    const parts = [`${count(o.ended)} ended`, `${count(o.gone)} gone by themselves`, `${count(o.left)} left`];
    if (o.told) parts.push(`${count(o.told)} told`);
    if (o.in_use) parts.push(`${count(o.in_use)} in use`);
    parts.push(duration(o.elapsed) + (o.finished || !o.expected ? "" : `, about ${duration(o.expected)} to go`));
    write(detail, parts.join(" · "));
    pause.hidden = cancel.hidden = o.finished || !state.steer;
    pause.dataset.do = o.paused ? "resume" : "pause";
    write(pause, o.paused ? "Resume" : "Pause");
    if (o.finished && finished.get(o.id) === false) news = `${title} has finished.`;
    finished.set(o.id, o.finished);
  });
  return news;
}

// reset shows nothing, and no dialog, until the state of another tracker comes.
export function reset() {
  name = "";
  known = { phases: [], settings: [] };
  finished.clear();
  fill(byId("running"), []);
  byId("operations").hidden = true;
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}

function item() {
  const li = make("li"), head = make("div", "bar"), cancel = make("button", "", "Cancel");
  cancel.dataset.do = "cancel";
  head.append(make("strong"), make("button"), cancel);
  li.append(head, make("progress"), make("p", "note"));
  return li;
}
