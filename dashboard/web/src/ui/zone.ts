// The zone in which the page shows absolute times.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Zone } from "../zone";

export interface ZoneChoice {
  zone: Zone;
  choose: (zone: Zone) => void;
}

export const ZoneContext = createContext<ZoneChoice>({ zone: "local", choose: () => {} });

export function useZone(): Zone {
  return useContext(ZoneContext).zone;
}
