// Does the deadline bias the model against some devices? The answer in one sentence.

import type { ClassStats } from "../api/types";
import { percent, words } from "./format";

/** Assignments without which a class says nothing. */
export const ASSIGNED_MIN = 20;

/** A class of fewer clients says something about those clients, not about a class. */
export const CLIENTS_MIN = 3;

/** Compares the class that is dropped most with the rest; none when there is too little to compare. */
export function biasSentence(
  attribute: string,
  classes: readonly ClassStats[],
): { text: string; biased: boolean } | undefined {
  const known = classes.filter((entry) => entry.assigned >= ASSIGNED_MIN && entry.clients >= CLIENTS_MIN);
  if (known.length < 2) return undefined;
  const worst = known.reduce((a, b) => (b.drop_rate > a.drop_rate ? b : a));
  const rest = known.filter((entry) => entry !== worst);
  const assigned = rest.reduce((sum, entry) => sum + entry.assigned, 0);
  const share = rest.reduce((sum, entry) => sum + entry.drop_rate * entry.assigned, 0) / assigned;
  // Two standard errors of the difference of two shares: less may be chance.
  const noise = 2 * Math.sqrt(variance(worst.drop_rate, worst.assigned) + variance(share, assigned));
  const name = `${words(attribute)} “${worst.value}”`;
  if (worst.drop_rate - share <= Math.max(noise, 0.01)) {
    return { text: `No class of ${words(attribute)} is dropped noticeably more often than the others.`, biased: false };
  }
  const times =
    share > 0.001 ? `, ${(worst.drop_rate / share).toFixed(1)} times as often as the others (${percent(share)})` : "";
  const affected = `in ${percent(worst.drop_rate)} of their rounds${times}`;
  return { text: `Clients with ${name} are dropped ${affected}: the model sees less of their data.`, biased: true };
}

function variance(share: number, count: number): number {
  return (share * (1 - share)) / count;
}

/** Share of a client's selections that ended without a counted report, 0 to 1. */
export function dropRate(client: {
  reported: number;
  expired: number;
  failed: number;
  rejected?: number;
}): number | undefined {
  const lost = client.expired + client.failed + (client.rejected ?? 0);
  const all = lost + client.reported;
  return all > 0 ? lost / all : undefined;
}
