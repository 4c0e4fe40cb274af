// Whether the screen is that of a phone, where tables have other rows.

import { useEffect, useState } from "preact/hooks";

/** As in the style sheets. */
const QUERY = "(max-width: 720px)";

export function useNarrow(): boolean {
  const [narrow, set] = useState(() => window.matchMedia(QUERY).matches);
  useEffect(() => {
    const media = window.matchMedia(QUERY);
    const changed = () => set(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return narrow;
}
