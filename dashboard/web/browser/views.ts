// Every view with its address, found through the API so that it works against any coordinator.

import type { Client, Overview, Page } from "../src/api/types";

export interface View {
  name: string;
  hash: string;
}

export async function views(base: string, token: string): Promise<View[]> {
  const get = async <T>(path: string): Promise<T> => {
    const response = await fetch(`${base}/operator/v1/${path}`, { headers: { authorization: `Bearer ${token}` } });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  };
  const overview = await get<Overview>("overview");
  const found: View[] = [
    { name: "overview", hash: "#/" },
    { name: "new-job", hash: "#/jobs/new" },
  ];
  const compared = overview.jobs.slice(0, 3).map(({ job }) => job.id);
  if (compared.length > 1) found.push({ name: "compare", hash: `#/compare?jobs=${compared.join(",")}` });
  const longest = overview.jobs.toSorted((a, b) => b.job.rounds_committed - a.job.rounds_committed)[0];
  if (longest) {
    const { id, rounds_committed: rounds, population } = longest.job;
    for (const tab of ["progress", "rounds", "sessions", "models", "file"])
      found.push({ name: `job-${tab}`, hash: `#/jobs/${id}?tab=${tab}` });
    const ended = longest.last_round?.number ?? rounds;
    if (ended > 0) found.push({ name: "round", hash: `#/jobs/${id}/rounds/${ended}` });
    const open = overview.jobs.flatMap((entry) => entry.open_rounds.map((round) => ({ job: entry.job.id, round })))[0];
    if (open)
      found.push({
        name: "round-open",
        hash: `#/jobs/${open.job}/rounds/${open.round.number}?task=${open.round.task}`,
      });
    const clients = await get<Page<Client>>(`clients?population=${population}&limit=1`);
    if (clients.items[0]) found.push({ name: "client", hash: `#/clients/${clients.items[0].id}` });
    found.push({ name: "clients", hash: `#/clients?population=${population}` });
  }
  found.push({ name: "access", hash: "#/access" }, { name: "system", hash: "#/system" });
  return found;
}
