// The form of a round policy: its fields, in which unit they are typed, and what changed.

import type { RoundPolicy, Tables } from "../api/types";
import { duration, parseDuration } from "./format";

export interface Field {
  key: Exclude<keyof RoundPolicy, Tables>;
  label: string;
  hint: string;
  unit: "count" | "factor" | "duration";
}

export const FIELDS: readonly Field[] = [
  { key: "updates_goal", label: "Goal", hint: "updates that close a round early", unit: "count" },
  { key: "updates_min", label: "Minimum", hint: "fewer at the deadline abandon the round", unit: "count" },
  { key: "over_selection", label: "Over-selection", hint: "clients selected per update of the goal", unit: "factor" },
  { key: "available_min", label: "Available clients", hint: "wait for at least so many", unit: "count" },
  { key: "deadline_ms", label: "Deadline", hint: "from the selection to the last counted update", unit: "duration" },
  {
    key: "selection_timeout_ms",
    label: "Selection timeout",
    hint: "how long a round waits for clients",
    unit: "duration",
  },
  { key: "backoff_ms", label: "Back-off", hint: "pause after an abandoned round; doubles each time", unit: "duration" },
  { key: "backoff_max_ms", label: "Longest back-off", hint: "the doubling stops here", unit: "duration" },
];

/** Whether clients are drawn one by one, without cohorts. */
export function isStreamed(mode: RoundPolicy["mode"]): boolean {
  return mode !== undefined && mode.kind !== "synchronous";
}

/** The fields that have a meaning for a job: those of cohorts have none in a buffered job. */
export function fieldsOf({ mode }: RoundPolicy): readonly Field[] {
  if (!isStreamed(mode)) return FIELDS;
  const ofClients = ["deadline_ms", "backoff_ms", "backoff_max_ms"];
  const ofMembers = mode?.kind === "stale_synchronous" ? ["selection_timeout_ms"] : [];
  return FIELDS.filter(({ key }) => [...ofClients, ...ofMembers].includes(key));
}

/** The field's value as it is typed. */
export function typed(field: Field, policy: RoundPolicy): string {
  const value = policy[field.key];
  if (field.unit !== "duration") return String(value);
  const text = duration(value);
  return parseDuration(text) === value ? text : `${value} ms`;
}

/** The value of what was typed, or what is wrong with it. The coordinator has the last word on ranges. */
export function read(field: Field, text: string): { value: number } | { error: string } {
  if (field.unit === "duration") {
    const value = parseDuration(text);
    return value === undefined ? { error: "A duration such as 90 s, 10 min or 1 h 30 min" } : { value };
  }
  const pattern = field.unit === "count" ? /^\d+$/ : /^\d+(\.\d+)?$/;
  if (!pattern.test(text.trim())) return { error: field.unit === "count" ? "A whole number" : "A number such as 1.3" };
  return { value: Number(text) };
}

/** What is sent: the fields that differ. */
export function changes(before: RoundPolicy, after: Partial<RoundPolicy>): Partial<RoundPolicy> {
  return Object.fromEntries(Object.entries(after).filter(([key, value]) => before[key as keyof RoundPolicy] !== value));
}

/** `ceil(goal x over_selection)`, with the coordinator's guard against binary fractions. */
export function cohortSize(goal: number, overSelection: number): number {
  return Math.ceil(goal * overSelection - 1e-9);
}
