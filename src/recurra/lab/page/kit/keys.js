// Keys of a view. A key that somebody types into a field, or that a control uses itself, is left alone.
let bound = [];

export function keys(panel, actions) {
  bound.push(actions);
  panel.signal.addEventListener("abort", () => { bound = bound.filter((each) => each !== actions); });
}

export function forget() { bound = []; }

const OWN = "input, textarea, select, [contenteditable], [role=tab], [role=slider]";

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(OWN)) return;
  const found = bound.map((each) => each[event.key]).filter(Boolean);
  if (found.length) {
    event.preventDefault();
    found.forEach((action) => action(event));
  }
});
