// Talks to the server.

const answerTime = 8000; // in ms; the server itself waits for less

let chosen = "";

// choose sets the tracker that requests are about.
export function choose(tracker) { chosen = tracker; }

// get fetches an answer. stop is a signal that aborts it.
export async function get(path, parameters, stop) {
  const q = new URLSearchParams(parameters);
  if (chosen) q.set("tracker", chosen);
  const signal = AbortSignal.any([stop, AbortSignal.timeout(answerTime)]);
  const response = await fetch(`api/${path}?${q}`, { signal, cache: "no-store" });
  if (response.ok) return response.json();
  const body = await response.json().catch(() => ({}));
  const e = new Error(body.error || `the server answered with status ${response.status}`);
  e.answered = true;
  throw e;
}
