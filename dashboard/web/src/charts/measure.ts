// The width of an element, so that an SVG can be drawn in real pixels.

import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** The ref of an element and its width in pixels, 0 before the first layout. */
export function useWidth<T extends Element>(): [{ current: T | null }, number] {
  const element = useRef<T>(null);
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const measured = new ResizeObserver(([entry]) => entry && set(Math.floor(entry.contentRect.width)));
    if (element.current) {
      set(element.current.clientWidth);
      measured.observe(element.current);
    }
    return () => measured.disconnect();
  }, []);
  return [element, width];
}
