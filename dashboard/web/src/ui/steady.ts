// A box that grows with its content and does not shrink, so that the page below it does not jump with each round.

import { useLayoutEffect, useRef } from "preact/hooks";

/** The ref of such a box. */
export function useSteadyHeight<T extends HTMLElement>(): { current: T | null } {
  const element = useRef<T>(null);
  const seen = useRef({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const box = element.current;
    if (!box) return;
    const { clientWidth: width, offsetHeight: height } = box;
    // At another width the lines break elsewhere, and the old height means nothing.
    if (seen.current.width !== width) {
      box.style.minHeight = "";
      seen.current = { width, height: box.offsetHeight };
    } else {
      seen.current.height = Math.max(seen.current.height, height);
    }
    box.style.minHeight = `${seen.current.height}px`;
  });
  return element;
}
