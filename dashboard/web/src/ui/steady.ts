// A box that grows with its content and does not shrink again: what lies below must not jump with every round.

import { useLayoutEffect, useRef } from "preact/hooks";

export function useSteadyHeight<T extends HTMLElement>(): { current: T | null } {
  const element = useRef<T>(null);
  const seen = useRef({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const box = element.current;
    if (!box) return;
    const { clientWidth: width, offsetHeight: height } = box;
    // At another width the lines break elsewhere: begin anew.
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
