// The table of fixed models and clients, from the assignments of the evaluations.

import type { Assignment } from "../api/types";

/** A client, with its result of each model: undefined where it was not drawn. */
export interface Site {
  client: string;
  number: number;
  results: (Assignment | undefined)[];
}

/** The clients by number. `rounds` are the assignments of each model's evaluation, in the order of the models. */
export function siteTable(rounds: readonly (readonly Assignment[])[]): Site[] {
  const sites = new Map<string, Site>();
  rounds.forEach((assignments, place) => {
    for (const assignment of assignments) {
      const { client, client_number: number } = assignment;
      const site = sites.get(client) ?? { client, number, results: [] };
      site.results[place] = assignment;
      sites.set(client, site);
    }
  });
  return [...sites.values()].sort((one, other) => one.number - other.number);
}
