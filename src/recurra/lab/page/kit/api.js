// Requests to the lab. Paths are relative to the page, whose address has the token.
export class Refused extends Error {}

const base = new URL(".", location.href.split("#")[0]);

function address(path, params = {}) {
  const made = new URL(path, base);
  for (const [key, value] of Object.entries(params)) {
    for (const each of Array.isArray(value) ? value : [value]) if (each !== null && each !== undefined) made.searchParams.append(key, each);
  }
  return made;
}

async function ask(path, params, options) {
  let answer;
  try {
    answer = await fetch(address(path, params), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The lab does not answer. Was it closed? Start it again with: recurra lab");
  }
  if (!answer.ok) {
    const found = await answer.json().catch(() => ({}));
    throw new Refused(found.error ?? `The lab answered ${answer.status}.`);
  }
  return answer;
}

const asBody = (body, signal) => ({ method: "POST", signal, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

export const link = (path, params) => address(path, params).href;
export const get = async (path, params, signal) => (await ask(path, params, { signal })).json();
export const post = async (path, body, signal) => (await ask(path, {}, asBody(body, signal))).json();
export const blob = async (path, body, signal) => (await ask(path, {}, asBody(body, signal))).blob();
export const bytes = async (path, body, signal) => (await ask(path, {}, asBody(body, signal))).arrayBuffer();

// Server-sent events, until the signal ends them. An event with `error` is thrown.
export async function stream(path, body, onEvent, signal) {
  const answer = await ask(path, {}, body === null ? { signal } : asBody(body, signal));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (!part.startsWith("data: ")) continue;
      const event = JSON.parse(part.slice(6));
      if (event.error) throw new Refused(event.error);
      onEvent(event);
    }
  }
}

// A stream that is opened again when it breaks off, until the signal ends it.
export async function follow(path, onEvent, signal) {
  while (!signal.aborted) {
    try {
      await stream(path, null, onEvent, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refused) && error.name !== "TypeError") throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, 2000); });
  }
}

// As `follow`, with one stream for all tabs of the browser: it has no more than six connections to one host, and each stream holds one.
// The tab that has the lock reads the stream and tells the others; when it is closed, another gets the lock.
export function followTogether(path, onEvent, signal) {
  const name = `${base.pathname}${path}`;
  const channel = new BroadcastChannel(name);
  channel.onmessage = (message) => onEvent(message.data);
  signal.addEventListener("abort", () => channel.close());
  const read = () => follow(path, (event) => { channel.postMessage(event); onEvent(event); }, signal);
  navigator.locks.request(name, { signal }, read).catch((error) => { if (!signal.aborted) throw error; });
}
