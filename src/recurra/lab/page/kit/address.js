// The address of what is shown: #/VIEW?run=NAME&run=NAME&KEY=VALUE. Every selection that one may want to share stands in it.
const listeners = [];

export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: decodeURIComponent(path), params: new URLSearchParams(query) };
}

function write(view, params) {
  const pairs = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") pairs.append(key, each);
    }
  }
  const query = pairs.toString();
  return `#/${encodeURIComponent(view)}${query ? `?${query}` : ""}`;
}

// All parameters, or those that are named, as an object of lists.
export function keep(names) {
  const { params } = read();
  return Object.fromEntries([...new Set(params.keys())].filter((key) => !names || names.includes(key)).map((key) => [key, params.getAll(key)]));
}

export const link = (view, params = {}) => write(view, params);
export const get = (key, otherwise = null) => read().params.get(key) ?? otherwise;

// Another place: a step that the back button undoes.
export function go(view, params = {}) {
  location.hash = write(view, params);
}

// Change some parameters of this place. `{ silent: true }` does not tell the panels; `{ step: true }` can be undone with the back button.
export function set(changes, { silent = false, step = false } = {}) {
  const next = write(read().view || "runs", { ...keep(null), ...changes });
  if (next === location.hash) return;
  history[step ? "pushState" : "replaceState"](null, "", next);
  if (!silent) listeners.forEach((listener) => listener());
}

export function onChange(listener) {
  listeners.push(listener);
  addEventListener("hashchange", listener);
}
