// Tokens and accounts: their state, lifetimes and attributes, and the link of a viewer.

import type { Token } from "../api/types";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Lifetimes to choose from. An empty value is none. */
export const LIVES = [
  { value: String(HOUR_MS), label: "1 hour" },
  { value: String(DAY_MS), label: "1 day" },
  { value: String(7 * DAY_MS), label: "7 days" },
  { value: String(30 * DAY_MS), label: "30 days" },
  { value: String(90 * DAY_MS), label: "90 days" },
  { value: String(365 * DAY_MS), label: "1 year" },
];

export type TokenState = "valid" | "revoked" | "expired" | "used up";

/** Whether a token works, or why not. */
export function tokenState(token: Token, nowMs: number): TokenState {
  if (token.revoked_at_ms !== undefined) return "revoked";
  if (token.expires_at_ms !== undefined && token.expires_at_ms <= nowMs) return "expired";
  return token.uses_max !== undefined && token.uses >= token.uses_max ? "used up" : "valid";
}

/** The newest first; those that no longer work only when `ended` says so. */
export function listed(tokens: readonly Token[], kind: Token["kind"], ended: boolean, nowMs: number): Token[] {
  return tokens
    .filter((token) => token.kind === kind && (ended || tokenState(token, nowMs) === "valid"))
    .toSorted((a, b) => b.created_at_ms - a.created_at_ms);
}

/** Attributes from a text such as `site=north ward=7`; undefined if it is none. */
export function attributesIn(text: string): Record<string, string> | undefined {
  const pairs = text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((pair) => /^([^=]+)=(.+)$/.exec(pair));
  if (pairs.some((pair) => pair === null)) return undefined;
  return Object.fromEntries(pairs.map((pair) => [pair![1], pair![2]]));
}

/** A whole number of at least 1 in a text; undefined for an empty one, NaN for any other. */
export function wholeIn(text: string): number | undefined {
  const clean = text.trim();
  if (clean === "") return undefined;
  return /^[1-9]\d{0,14}$/.test(clean) ? Number(clean) : Number.NaN;
}

/** The address of a view, with a token that signs its visitors in. `hash` is that of the view. */
export function linkWith(server: string, secret: string, hash: string): string {
  const view = hash.replace(/^#/, "");
  return `${server}/#token=${encodeURIComponent(secret)}${view === "" || view === "/" ? "" : `&${view}`}`;
}
