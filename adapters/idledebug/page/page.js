// What is on the page, brought up to date once a second while it is seen.
import { byId, bytes, cells, clock, count, duration, fill, make, options, phaseName, plain, rate, write } from "./text.js";
import { histogram, sparkline } from "./draw.js";
import { choose, get } from "./server.js";
import * as connections from "./connections.js";
import * as steer from "./steer.js";

const period = 1000; // ms between looks
const samples = 120; // of a sparkline

let history = []; // of states: when, how many were live, tracked, and ended by reason
let rates = [];   // between them
let latest = null;
let answered = null; // when the server last did

// note adds a state to the history. A gap begins it anew.
function note(state) {
  const now = { at: Date.parse(state.at) / 1000, live: state.counts.live, tracked: state.counts.tracked, ended: state.ended };
  const before = history.at(-1);
  if (before && (now.at - before.at > 10 || now.tracked < before.tracked)) history = rates = [];
  else if (before && now.at > before.at) {
    const over = now.at - before.at, by = {};
    for (const r in now.ended) by[r] = (now.ended[r] - (before.ended[r] || 0)) / over;
    rates = [...rates, { opened: (now.tracked - before.tracked) / over, by, all: Object.values(by).reduce((a, b) => a + b, 0) }].slice(-samples);
  }
  history = [...history, now].slice(-samples);
}

function showTiles(s) {
  const r = rates.at(-1), c = s.counts;
  write(byId("live"), count(c.live));
  write(byId("live-note"), s.capacity && s.capacity.max_conns ? `of ${count(s.capacity.max_conns)} at most` : `${count(c.tracked)} so far`);
  write(byId("opened"), r ? rate(r.opened) : "-");
  write(byId("ended"), r ? rate(r.all) : "-");
  const limits = Object.entries(s.refused).filter(([, n]) => n).map(([limit, n]) => `${count(n)} ${limit}`).join(", ");
  write(byId("opened-note"), c.refused ? `${count(c.refused)} refused` : "");
  byId("opened-note").title = limits && `by limit: ${limits}`;
  write(byId("ended-note"), `${count(Object.values(s.ended).reduce((a, b) => a + b, 0))} so far`);
  write(byId("late"), s.lateness.count ? "≤ " + duration(s.lateness.p99) : "-");
  write(byId("late-note"), s.lateness.count ? `median ≤ ${duration(s.lateness.p50)}` : "nothing has timed out");
  write(byId("pressure"), Math.round(s.pressure * 100) + " %");
  write(byId("pressure-note"), s.pressure ? "limits are tighter than at rest" : "limits are at rest");
  sparkline(byId("live-spark"), history.map(h => h.live), samples, false);
  sparkline(byId("opened-spark"), rates.map(r => r.opened), samples, true);
  sparkline(byId("ended-spark"), rates.map(r => r.all), samples, true);
}

const operations = new Set(["drain", "shed", "evict"]);
const own = { closed: "closed by the owner", released: "released, still open" };
const kind = reason => reason in own ? "own" : operations.has(reason) ? "operation" : "limit";

function showReasons(s) {
  const shown = Object.keys(s.ended).filter(r => s.ended[r] || r === "closed").sort((a, b) => s.ended[b] - s.ended[a] || (a < b ? -1 : 1));
  fill(byId("reasons").tBodies[0], shown, () => {
    const row = cells("reason", "trend", "number", "number")();
    row.children[0].append(make("i"), make("span"));
    row.children[1].append(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
    row.children[1].firstChild.setAttribute("class", "spark");
    row.children[1].firstChild.setAttribute("aria-hidden", "true");
    return row;
  }, (row, reason) => {
    row.dataset.kind = kind(reason);
    write(row.children[0].lastChild, own[reason] || reason);
    sparkline(row.children[1].firstChild, rates.map(r => r.by[reason] || 0), samples, true);
    write(row.children[2], rates.length ? rate(rates.at(-1).by[reason] || 0) : "-");
    write(row.children[3], count(s.ended[reason]));
  });
}

function showCensus(s) {
  const c = s.census;
  for (const within of ["1", "10", "60"]) write(byId("in-" + within), c ? count(c.ending[within]) : "-");
  histogram(byId("idle-histogram"), c ? c.idle : [], "Idle time");
  histogram(byId("age-histogram"), c ? c.ages : [], "Age");
  const from = c ? `Counted ${count(c.live)} in ${duration(c.took)}, ${duration(c.age)} ago.` + (c.with_unsent ? ` ${bytes(c.unsent)} wait for ${count(c.with_unsent)} peers that read slowly.` : "") : "";
  write(byId("census-note"), s.closed ? "The tracker is closed." : s.census_error ? `${from} No newer count: ${s.census_error}.` : from);
  byId("census-note").classList.toggle("error", s.census_error !== "");
}

function showPhases(s) {
  fill(byId("phases").tBodies[0], s.phases, cells("label", "number", "limits", "number", "act"), (row, p) => {
    const [label, live, limits, ended, act] = row.children;
    row.shown = { ...p, tracker: s.tracker };
    write(label, phaseName(p.name) + (p.initial ? ", at the beginning" : ""));
    write(live, s.census || s.closed ? count(p.live) : "-");
    const rest = Object.fromEntries(p.rest.map(l => [l.name, l.value]));
    fill(limits, p.in_force.length ? p.in_force : [{ name: "no limit", value: "" }], () => {
      const e = make("span", "limit");
      e.append(make("span"), " ", make("b"), make("small"));
      return e;
    }, (e, l) => {
      const tighter = rest[l.name] !== undefined && rest[l.name] !== l.value;
      write(e.children[0], l.name);
      write(e.children[1], l.value);
      write(e.children[2], tighter ? ` at rest ${rest[l.name]}` : "");
      e.classList.toggle("tighter", tighter);
    });
    write(ended, count(Object.values(p.ended).reduce((a, b) => a + b, 0)));
    if (s.steer && !act.firstChild) act.append(make("button", "quiet", "Change…"));
    if (act.firstChild) act.firstChild.setAttribute("aria-label", "Change the limits of " + label.textContent);
  });
}

function showEnds(s) {
  fill(byId("ends").tBodies[0], s.ends.slice(0, 25), () => {
    const row = cells("time", "reason", "label", "minor", "number", "number minor", "number minor")();
    row.children[1].append(make("i"), make("span"));
    return row;
  }, (row, e) => {
    row.dataset.kind = kind(e.reason);
    const [time, reason, label, phase, age, idle, late] = row.children;
    write(time, clock(e.time));
    write(reason.lastChild, (e.setting || e.reason) + (e.cause ? `: ${plain(e.cause)}` : ""));
    write(label, plain(e.label) || "(no label)");
    label.title = label.textContent;
    write(phase, phaseName(e.phase));
    write(age, duration(e.age));
    write(idle, duration(e.idle));
    write(late, e.late ? duration(e.late) : "");
  });
  write(byId("ends-note"), s.ends.length ? "" : "No end has been recorded yet.");
}

function showCounts(s) {
  const c = s.counts;
  const shown = [
    ["pings", c.pings], ["missed", c.misses], ["kept open", c.extended], ["refused", c.refused], ["late by a tick or more", c.deferred],
    ["panics of callbacks", c.panics], ["ends not reported", c.ends_lost], ["passes", c.passes],
  ].map(([name, n]) => [name, count(n)]);
  shown.push(["time of all passes", duration(c.pass_total)], ["backlog", duration(c.backlog_age)], ["longest pass", duration(c.longest_pass)], ["99th percentile of a pass", "≤ " + duration(s.pass_time.p99)],
    ["median lifetime", "≤ " + duration(s.lifetime.p50)], ["median idle time at the end", "≤ " + duration(s.idle_at_end.p50)]);
  fill(byId("counts"), shown, () => {
    const e = make("div");
    e.append(make("dt"), make("dd"));
    return e;
  }, (e, [name, value]) => {
    write(e.children[0], name);
    write(e.children[1], value);
  });
}

function show(s) {
  latest = s;
  note(s);
  document.title = `${count(s.counts.live)} live - ${plain(s.tracker)}`;
  options(byId("tracker"), s.trackers.map(t => [t, plain(t)]));
  byId("tracker").value = s.tracker;
  byId("choice").hidden = s.trackers.length < 2;
  write(byId("only"), s.trackers.length < 2 ? plain(s.tracker) : "");
  showTiles(s);
  showReasons(s);
  showCensus(s);
  showPhases(s);
  showEnds(s);
  showCounts(s);
  connections.phases(s.phases);
  return steer.show(s);
}

function say(text, connected) {
  write(byId("status"), text);
  byId("status").classList.toggle("connected", connected);
}

function complain(text) {
  byId("trouble").hidden = text === "";
  write(byId("trouble"), text);
  document.body.classList.toggle("stale", text !== "");
}

// every returns a function that looks at something now, and again once a second while
// the page is seen. asked tells look that somebody has asked for it just now.
function every(look) {
  let stop = new AbortController(), timer = 0;
  return async function again(asked = false) {
    clearTimeout(timer);
    stop.abort(); // what is under way
    if (document.hidden) return;
    const mine = stop = new AbortController(), begun = performance.now();
    const pause = await look(mine.signal, asked);
    if (!mine.signal.aborted) timer = setTimeout(again, Math.max(100, pause - (performance.now() - begun)));
  };
}

const lookAtState = every(async stop => {
  let state;
  try {
    state = await get("state", {}, stop);
  } catch (error) {
    if (stop.aborted) return 0;
    say(error.answered ? "Refused" : "Not connected", false);
    const since = answered ? ` since ${clock(answered)}` : "";
    complain(error.answered ? `The server refuses: ${error.message}` : `The server has not answered${since}. What is shown is from then. Trying again.`);
    return 2 * period;
  }
  answered = new Date();
  complain("");
  const news = show(state);
  say(news || (state.closed ? "Tracker closed" : "Live"), !state.closed);
  return period;
});

const lookAtList = every(async (stop, asked) => {
  if (latest && latest.closed) return period;
  try {
    connections.show(await get("connections", connections.parameters(), stop), asked);
  } catch (error) {
    if (!stop.aborted) connections.trouble(error.message);
  }
  return period;
});

function look() {
  lookAtList(); // first, as its census serves both
  lookAtState();
}

byId("tracker").onchange = e => {
  choose(e.target.value);
  latest = null;
  history = rates = [];
  fill(byId("phases").tBodies[0], []);
  fill(byId("ends").tBodies[0], []);
  connections.reset();
  steer.reset();
  look();
};
byId("phases").onclick = e => {
  const row = e.target.closest("button") && e.target.closest("tr");
  if (row) steer.change(row.shown);
};
document.addEventListener("visibilitychange", look);
connections.listen(() => lookAtList(true), steer.end);
steer.listen(look);
look();
