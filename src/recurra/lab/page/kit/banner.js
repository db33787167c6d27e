// Errors, in one line above the content.
import { button, h, put } from "./dom.js";

const banner = document.getElementById("banner");

export function tell(error) {
  if (error?.name === "AbortError") return;
  if (!(error instanceof Error) || error.constructor.name !== "Refused") console.error(error);
  banner.hidden = false;
  put(banner, h("span", {}, error?.message ?? String(error)), button("Dismiss", clear, { class: "quiet" }));
}

export function clear() {
  banner.hidden = true;
  put(banner);
}

// Runs an action of the user: what goes wrong is shown, what was shown is cleared.
export async function attempt(action) {
  clear();
  try {
    return await action();
  } catch (error) {
    tell(error);
    return undefined;
  }
}
