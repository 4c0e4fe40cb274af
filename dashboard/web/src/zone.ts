// The zone of all absolute times: that of the browser, unless the person has chosen UTC.

export type Zone = "local" | "utc";

const KEY = "tributary.zone";

export function savedZone(): Zone {
  return localStorage.getItem(KEY) === "utc" ? "utc" : "local";
}

export function saveZone(zone: Zone): void {
  if (zone === "local") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, zone);
}

/** Whether the browser's own zone is UTC in summer and winter, so that there is nothing to choose. */
export function isLocalUtc(): boolean {
  const year = new Date().getFullYear();
  return [0, 6].every((month) => new Date(year, month, 1).getTimezoneOffset() === 0);
}
