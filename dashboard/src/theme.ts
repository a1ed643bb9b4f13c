// Light or dark: as the browser prefers, unless one is selected; the selection is stored.

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "millstream-theme";
const stored = localStorage.getItem(KEY);
export const theme = signal<Theme>(stored === "light" || stored === "dark" ? stored : "system");
/** Counts up when colours may have changed: plots look them up again. */
export const painted = signal(0);

effect(() => {
  if (theme.value === "system") {
    delete document.documentElement.dataset["theme"];
    localStorage.removeItem(KEY);
  } else {
    document.documentElement.dataset["theme"] = theme.value;
    localStorage.setItem(KEY, theme.value);
  }
  painted.value = painted.peek() + 1;
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  painted.value += 1;
});

/** The current value of a colour of the style sheet, for drawing on a canvas. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
