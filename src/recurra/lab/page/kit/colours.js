// Colours that stay apart for colour-blind readers, on light and dark grounds; from the custom properties of style.css.
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
export const line = (k) => css(`--line-${k % 8}`);

export function parse(colour) {
  const hex = colour.replace("#", "");
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// A value in [−1, 1] to a colour: blue below, the ground at 0, orange above. 511 entries of [r, g, b].
export function diverging() {
  const [low, middle, high] = ["--low", "--zero", "--high"].map((name) => parse(css(name)));
  const mix = (from, to, share) => from.map((value, k) => Math.round(value + share * (to[k] - value)));
  return Array.from({ length: 511 }, (_, k) => (k < 255 ? mix(middle, low, (255 - k) / 255) : mix(middle, high, (k - 255) / 255)));
}

// A value in [0, 1] to a colour, from the ground to orange: 256 entries.
export function sequential() {
  return diverging().slice(255);
}

export const onScheme = (listener, signal) => matchMedia("(prefers-color-scheme: dark)").addEventListener("change", listener, { signal });
