// Do the updates of some devices count less often? The coordinator tests it; here is the answer in words.

import type { ClassStats } from "../api/types";
import { percent, plural, words } from "./format";

export interface Finding {
  text: string;
  bad: boolean;
}

/**
 * What is to be said of the classes of an attribute: first those that never count, then those that count less often
 * than the others. Nothing while there is too little to compare.
 */
export function findings(attribute: string, classes: readonly ClassStats[]): Finding[] {
  const found = (verdict: ClassStats["verdict"]) => classes.filter((entry) => entry.verdict === verdict);
  const bad = [...found("shut_out"), ...found("under")].map((entry) => ({
    text: sentence(attribute, entry, classes),
    bad: true,
  }));
  if (bad.length > 0) return bad;
  if (found("fair").length < 2) return [];
  return [{ text: `No class of ${words(attribute)} counts noticeably less often than the others.`, bad: false }];
}

function sentence(attribute: string, entry: ClassStats, classes: readonly ClassStats[]): string {
  const { clients, assigned, verdict } = entry;
  const who = `${plural(clients, "client")} with ${words(attribute)} “${entry.value || "(none)"}”`;
  const drawn = `${who} ${clients === 1 ? "was" : "were"} drawn ${plural(assigned, "time")}`;
  if (verdict === "shut_out") return `${drawn}, and no update of theirs counted: the model learns nothing from them.`;
  const ended = (of: ClassStats) => of.reported + of.rejected + of.failed + of.expired;
  const rest = classes.filter((other) => other !== entry);
  const counted = rest.reduce((sum, other) => sum + other.reported, 0);
  const all = rest.reduce((sum, other) => sum + ended(other), 0);
  const others = all > 0 ? ` (${percent(counted / all)} for the others)` : "";
  const share = `${percent(entry.counted_rate ?? 0)} of their updates counted${others}`;
  return `${drawn}, and ${share}: the model sees less of their data.`;
}

/** The share of updates that counted, with the interval in which it lies by chance. */
export function countedText(entry: ClassStats): string {
  if (entry.assigned === 0) return "never selected";
  const [low, high] = [entry.counted_rate_low ?? 0, entry.counted_rate_high ?? 1];
  return `${percent(entry.counted_rate ?? 0, 0)} (${percent(low, 0)} to ${percent(high, 0)})`;
}

/** A percentile of the work time; longer than what is known of unfinished work where that is in the way. */
export function workText(ms: number | undefined, overMs: number | undefined, text: (ms: number) => string): string {
  if (ms !== undefined) return text(ms);
  return overMs === undefined ? "–" : `> ${text(overMs)}`;
}

/** Share of a client's selections that were lost, 0 to 1. Spares are none: their rounds did not need them. */
export function dropRate(client: {
  reported: number;
  expired: number;
  spare?: number;
  failed: number;
}): number | undefined {
  const all = client.expired + client.failed + client.reported;
  const lost = client.expired - (client.spare ?? 0) + client.failed;
  return all > 0 ? lost / all : undefined;
}
