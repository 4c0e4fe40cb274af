// The search of the audit log: from what a person typed to the query of the API.

import type { Query } from "../api/http";
import type { AuditAction } from "../api/types";

/** Every action of the log. */
const ALL: Record<AuditAction, true> = {
  "account.create": true,
  "account.password": true,
  "account.revoke": true,
  "account.sessions_end": true,
  "client.enrol": true,
  "client.erase": true,
  "client.leave": true,
  "client.quarantine": true,
  "client.release": true,
  "client.revoke": true,
  "job.change": true,
  "job.create": true,
  "job.delete": true,
  "job.pause": true,
  "job.resume": true,
  "job.round_policy": true,
  "job.stop": true,
  "job.take_over": true,
  "model.pin": true,
  "model.unpin": true,
  "model.upload": true,
  "population.budget": true,
  "population.create": true,
  refusal: true,
  "release.create": true,
  "release.widen": true,
  "release.withdraw": true,
  "session.login": true,
  "session.logout": true,
  "test_set.upload": true,
  "token.create": true,
  "token.revoke": true,
};

/** The actions of the log, by the object that they concern. */
export const ACTIONS = Object.keys(ALL) as AuditAction[];

/** A text that is looked for anywhere in a field; the number of a client stands alone. */
function anywhere(text: string): string {
  return /^client \d+$/.test(text) ? text : `*${text}*`;
}

/**
 * The part of the query that the fields of the search decide. Days are of the zone in which the page shows times.
 * `jobs` finds the id of a job by its name: the log has only ids.
 */
export function searchOf(fields: URLSearchParams, jobs: (name: string) => string | undefined, utc: boolean): Query {
  const [person, subject] = [fields.get("person")?.trim(), fields.get("subject")?.trim()];
  const zone = utc ? "Z" : "";
  const day = (name: string) => {
    const at = Date.parse(`${fields.get(name)}T00:00:00${zone}`);
    return Number.isNaN(at) ? undefined : at;
  };
  const until = day("until");
  return {
    action: fields.get("action") ?? undefined,
    person: person ? anywhere(person) : undefined,
    subject: subject ? (jobs(subject) ?? anywhere(subject)) : undefined,
    since_at_ms: day("since"),
    // The day itself is part of the search, also one of 23 or 25 hours.
    until_at_ms: until === undefined ? undefined : nextDay(until, utc),
  };
}

function nextDay(atMs: number, utc: boolean): number {
  const date = new Date(atMs);
  return utc ? atMs + 86_400_000 : date.setDate(date.getDate() + 1);
}
