// The theme: that of the system, unless the person has chosen one.

export type Theme = "system" | "light" | "dark";

const KEY = "tributary.theme";
const ORDER: readonly Theme[] = ["system", "light", "dark"];

export function savedTheme(): Theme {
  const saved = localStorage.getItem(KEY);
  return ORDER.find((theme) => theme === saved) ?? "system";
}

export function applyTheme(theme: Theme): void {
  if (theme === "system") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem(KEY);
  } else {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(KEY, theme);
  }
}

export function nextTheme(theme: Theme): Theme {
  return ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length]!;
}
