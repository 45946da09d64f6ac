// What is on the page, brought up to date once a second while it is seen.
import { byId, bytes, cells, clock, count, counted, duration, fill, make, options, phaseName, plain, rate, upTo, write } from "./text.js";
import { histogram, sparkline } from "./draw.js";
import { choose, get } from "./server.js";
import * as connections from "./connections.js";

const period = 1000; // ms between looks
const samples = 120; // of a sparkline

let history = []; // of states: when, how many were live, tracked, and ended by reason
let rates = [];   // between them
let latest = null;
let answered = null; // when the server last did

// note adds a state to the history. A gap begins it again.
function note(state) {
  const counts = state.counts, now = { at: Date.parse(state.at) / 1000, live: counts.live, tracked: counts.tracked, ended: state.ended };
  const before = history.at(-1);
  if (before && (now.at - before.at > 10 || now.tracked < before.tracked)) history = rates = [];
  else if (before && now.at > before.at) {
    const over = now.at - before.at, by = {};
    for (const r in now.ended) by[r] = (now.ended[r] - (before.ended[r] || 0)) / over;
    rates = [...rates, { opened: (now.tracked - before.tracked) / over, by, all: sum(by) }].slice(-samples);
  }
  history = [...history, now].slice(-samples);
}

const sum = numbers => Object.values(numbers).reduce((a, b) => a + b, 0);

function showTiles(state) {
  const last = rates.at(-1), counts = state.counts, capacity = state.capacity, lateness = state.lateness, lifetime = state.lifetime;
  write(byId("live"), count(counts.live));
  write(byId("live-note"), (capacity && capacity.max_conns ? `of ${count(capacity.max_conns)} at most` : `${count(counts.tracked)} so far`) + (capacity ? `, evicted after ${duration(capacity.min_idle)} idle` : ""));
  write(byId("opened"), last ? rate(last.opened) : "-");
  write(byId("ended"), last ? rate(last.all) : "-");
  write(byId("opened-note"), counts.refused ? `${count(counts.refused)} refused` : "");
  write(byId("ended-note"), `${count(sum(state.ended))} so far`);
  write(byId("late"), lateness.count ? upTo(lateness.p99) : "-");
  write(byId("late-note"), lateness.count ? `median ${upTo(lateness.p50)}` : "nothing has timed out");
  write(byId("lifetime"), lifetime.count ? upTo(lifetime.p50) : "-");
  write(byId("lifetime-note"), lifetime.count ? `90 % ${upTo(lifetime.p90)}` : "none has ended");
  sparkline(byId("live-spark"), history.map(h => h.live), samples, false);
  sparkline(byId("opened-spark"), rates.map(r => r.opened), samples, true);
  sparkline(byId("ended-spark"), rates.map(r => r.all), samples, true);
}

function showDrain(state) {
  const draining = state.draining;
  byId("drain").hidden = !draining;
  if (draining) write(byId("drain"), `A drain is under way. ${counted(draining.left, "connection")} ${draining.left === 1 ? "is" : "are"} left.`);
}

const operations = new Set(["drain", "shed", "evict"]);
const kind = reason => reason === "closed" ? "own" : operations.has(reason) ? "operation" : "limit";

function showReasons(state) {
  const ended = state.ended;
  const shown = Object.keys(ended).filter(r => ended[r] || r === "closed").sort((a, b) => ended[b] - ended[a] || (a < b ? -1 : 1));
  fill(byId("reasons").tBodies[0], shown, () => {
    const tr = cells("reason", "trend", "number", "number")();
    tr.children[0].append(make("i"), make("span"));
    tr.children[1].append(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
    tr.children[1].firstChild.setAttribute("class", "spark");
    tr.children[1].firstChild.setAttribute("aria-hidden", "true");
    return tr;
  }, (tr, reason) => {
    tr.dataset.kind = kind(reason);
    write(tr.children[0].lastChild, reason);
    sparkline(tr.children[1].firstChild, rates.map(r => r.by[reason] || 0), samples, true);
    write(tr.children[2], rates.length ? rate(rates.at(-1).by[reason] || 0) : "-");
    write(tr.children[3], count(ended[reason]));
  });
}

function showCensus(state) {
  const census = state.census;
  for (const within of ["1", "10", "60"]) write(byId("in-" + within), census ? count(census.ending[within]) : "-");
  histogram(byId("idle-histogram"), census ? census.idle : [], "Idle time");
  histogram(byId("age-histogram"), census ? census.ages : [], "Age");
  const from = census ? `Counted ${count(census.live)} in ${duration(census.took)}, ${duration(census.age)} ago.` + (census.with_unsent ? ` ${bytes(census.unsent)} wait for ${counted(census.with_unsent, "peer")} that ${census.with_unsent === 1 ? "reads" : "read"} slowly.` : "") : "";
  write(byId("census-note"), state.closed ? "The tracker is closed." : state.census_error ? `${from} No newer count: ${state.census_error}.` : from);
  byId("census-note").classList.toggle("error", state.census_error !== "");
}

function showPhases(state) {
  fill(byId("phases").tBodies[0], state.phases, cells("label", "number", "limits", "number"), (tr, phase) => {
    const [label, live, limits, ended] = tr.children;
    write(label, phaseName(phase.name) + (phase.initial ? ", at the beginning" : ""));
    write(live, state.census || state.closed ? count(phase.live) : "-");
    fill(limits, phase.limits || [], () => {
      const e = make("span", "limit");
      e.append(make("span"), " ", make("b"));
      return e;
    }, (e, limit) => {
      write(e.children[0], limit.name);
      write(e.children[1], limit.value);
    });
    write(ended, count(sum(phase.ended)));
  });
}

function showEnds(state) {
  fill(byId("ends").tBodies[0], state.ends.slice(0, 25), () => {
    const tr = cells("time", "reason", "label", "minor", "number", "number minor", "number minor")();
    tr.children[1].append(make("i"), make("span"));
    return tr;
  }, (tr, end) => {
    tr.dataset.kind = kind(end.reason);
    const [time, reason, label, phase, age, idle, late] = tr.children;
    write(time, clock(end.time));
    write(reason.lastChild, end.reason + (end.cause ? `: ${plain(end.cause)}` : ""));
    write(label, plain(end.label) || "(no label)");
    label.title = label.textContent;
    write(phase, phaseName(end.phase));
    write(age, duration(end.age));
    write(idle, duration(end.idle));
    write(late, end.late ? duration(end.late) : "");
  });
  write(byId("ends-note"), state.ends.length ? "" : "No end has been recorded yet.");
}

function showCounts(state) {
  const counts = state.counts;
  fill(byId("counts"), [
    ["pings", count(counts.pings)], ["missed", count(counts.misses)], ["kept open", count(counts.extended)], ["refused", count(counts.refused)],
    ["late by a tick or more", count(counts.deferred)], ["panics of callbacks", count(counts.panics)], ["ends not reported", count(counts.ends_lost)],
    ["passes", count(counts.passes)], ["time of all passes", duration(counts.pass_total)], ["longest pass", duration(counts.longest_pass)],
    ["backlog", duration(counts.backlog_age)],
  ], () => {
    const e = make("div");
    e.append(make("dt"), make("dd"));
    return e;
  }, (e, [name, value]) => {
    write(e.children[0], name);
    write(e.children[1], value);
  });
}

function show(state) {
  latest = state;
  note(state);
  document.title = `${count(state.counts.live)} live - ${plain(state.tracker)}`;
  options(byId("tracker"), state.trackers.map(t => [t, plain(t)]));
  byId("tracker").value = state.tracker;
  byId("choice").hidden = state.trackers.length < 2;
  write(byId("only"), state.trackers.length < 2 ? plain(state.tracker) : "");
  for (const part of [showTiles, showDrain, showReasons, showCensus, showPhases, showEnds, showCounts]) part(state);
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
// the page is seen.
function every(look) {
  let stop = new AbortController(), timer = 0;
  return async function again() {
    clearTimeout(timer);
    stop.abort(); // what is under way
    if (document.hidden) return;
    const mine = stop = new AbortController(), begun = performance.now();
    const pause = await look(mine.signal);
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
  show(state);
  say(state.closed ? "Tracker closed" : "Live", !state.closed);
  return period;
});

const lookAtList = every(async stop => {
  if (latest && latest.closed) return period;
  try {
    connections.show(await get("connections", connections.parameters(), stop));
  } catch (error) {
    if (!stop.aborted) connections.trouble(error.message);
  }
  return period;
});

function look() {
  lookAtList();
  lookAtState();
}

byId("tracker").onchange = e => {
  choose(e.target.value);
  latest = null;
  history = rates = [];
  fill(byId("phases").tBodies[0], []);
  fill(byId("ends").tBodies[0], []);
  byId("drain").hidden = true;
  connections.reset();
  look();
};
document.addEventListener("visibilitychange", look);
connections.listen(lookAtList);
look();
