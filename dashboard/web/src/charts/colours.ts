// Colours of the style sheet for a canvas, which cannot read CSS variables.

import { useEffect, useState } from "preact/hooks";

/** The value of a colour variable as `rgb(..)`, in the present theme. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  probe.hidden = true;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** A number that grows with each change of the theme. */
export function useThemeVersion(): number {
  const [version, set] = useState(0);
  useEffect(() => {
    const changed = () => set((value) => value + 1);
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const choice = new MutationObserver(changed);
    system.addEventListener("change", changed);
    choice.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      system.removeEventListener("change", changed);
      choice.disconnect();
    };
  }, []);
  return version;
}
