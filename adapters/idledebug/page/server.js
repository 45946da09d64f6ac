// Talks to the server.

const answerTime = 8000; // in ms; the server itself waits for less

let chosen = "";

// choose sets the tracker that requests are about.
export function choose(tracker) { chosen = tracker; }

function address(path, parameters) {
  const q = new URLSearchParams(parameters);
  if (chosen) q.set("tracker", chosen);
  return `api/${path}?${q}`;
}

async function answer(response) {
  const body = await response.json().catch(() => ({ error: `the server answered with status ${response.status}` }));
  if (!response.ok) {
    const e = new Error(body.error || `the server answered with status ${response.status}`);
    e.answered = true;
    throw e;
  }
  return body;
}

// get fetches an answer. stop is a signal that aborts it.
export async function get(path, parameters, stop) {
  const signal = AbortSignal.any([stop, AbortSignal.timeout(answerTime)]);
  return answer(await fetch(address(path, parameters), { signal, cache: "no-store" }));
}

// post sends a request that changes something.
export async function post(path, body) {
  return answer(await fetch(address(path, {}), {
    method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
  }));
}
