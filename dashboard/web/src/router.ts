// Addresses of the views. They are fragments, so that the coordinator serves one page only.

import { useEffect, useState } from "preact/hooks";

export type Route =
  | { view: "overview" }
  | { view: "new-job" }
  | { view: "compare" }
  | { view: "job"; job: string }
  | { view: "round"; job: string; round: number }
  | { view: "clients" }
  | { view: "client"; client: string }
  | { view: "access" }
  | { view: "system" }
  | { view: "unknown" };

export interface Location {
  route: Route;
  query: URLSearchParams;
}

/** Reads a fragment such as `#/jobs/job_1?tab=models`. */
export function parseHash(hash: string): Location {
  const [path = "", search = ""] = hash.replace(/^#/, "").split("?", 2);
  let parts: string[];
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    parts = ["%"];
  }
  return { route: routeOf(parts), query: new URLSearchParams(search) };
}

function routeOf(parts: string[]): Route {
  const [first, second, third, fourth] = parts;
  if (first === undefined) return { view: "overview" };
  if (first === "compare" && second === undefined) return { view: "compare" };
  if (first === "jobs" && second === "new" && third === undefined) return { view: "new-job" };
  if (first === "jobs" && second && third === undefined) return { view: "job", job: second };
  if (first === "jobs" && second && third === "rounds" && fourth && /^\d{1,9}$/.test(fourth) && parts.length === 4) {
    return { view: "round", job: second, round: Number(fourth) };
  }
  if (first === "clients" && second === undefined) return { view: "clients" };
  if (first === "clients" && second && third === undefined) return { view: "client", client: second };
  if (first === "access" && second === undefined) return { view: "access" };
  if (first === "system" && second === undefined) return { view: "system" };
  return { view: "unknown" };
}

/** The address of each view. */
export const links = {
  overview: () => "#/",
  newJob: () => "#/jobs/new",
  compare: (jobs: readonly string[]) => `#/compare?jobs=${jobs.map(encodeURIComponent).join(",")}`,
  job: (job: string, tab?: string) => `#/jobs/${encodeURIComponent(job)}${tab ? `?tab=${tab}` : ""}`,
  round: (job: string, round: number, task = "train") =>
    `#/jobs/${encodeURIComponent(job)}/rounds/${round}${task === "train" ? "" : `?task=${task}`}`,
  clients: (population?: string) =>
    population ? `#/clients?population=${encodeURIComponent(population)}` : "#/clients",
  client: (client: string) => `#/clients/${encodeURIComponent(client)}`,
  access: () => "#/access",
  system: () => "#/system",
};

/** The view and the query of the present address. */
export function useLocation(): Location {
  const [location, set] = useState(() => parseHash(window.location.hash));
  useEffect(() => {
    const changed = () => set(parseHash(window.location.hash));
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return location;
}

/** Changes parts of the query in place; an empty value removes its part. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const [path = "", search = ""] = window.location.hash.split("?", 2);
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  window.history.replaceState(null, "", `${path || "#/"}${text ? `?${text}` : ""}`);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
