// Talks to the server.

const answerTime = 8000; // in ms; the server itself waits for less

let chosen = "";

// choose sets the tracker that requests are about.
export function choose(tracker) { chosen = tracker; }

function address(path, parameters, tracker) {
  const q = new URLSearchParams(parameters);
  if (tracker) q.set("tracker", tracker);
  return `api/${path}?${q}`;
}

async function answer(response) {
  if (response.ok) return response.json();
  const body = await response.json().catch(() => ({}));
  const e = new Error(body.error || `the server answered with status ${response.status}`);
  e.answered = true;
  throw e;
}

// get fetches an answer. stop is a signal that aborts it.
export async function get(path, parameters, stop) {
  const signal = AbortSignal.any([stop, AbortSignal.timeout(answerTime)]);
  return answer(await fetch(address(path, parameters, chosen), { signal, cache: "no-store" }));
}

// post sends a request that changes something. The tracker is the one of what was pressed,
// as another one may have been chosen since.
export async function post(path, tracker, body) {
  return answer(await fetch(address(path, {}, tracker), {
    method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
  }));
}
