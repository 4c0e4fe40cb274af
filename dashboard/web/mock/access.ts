// The mock's tokens and accounts: made, used, revoked, as the coordinator answers them.

import type { Account, CreatedToken, Page, Role, Token } from "../src/api/types";
import { digits } from "./random";

const DAY_MS = 86_400_000;

interface NewToken {
  kind: Token["kind"];
  label?: string;
  role?: Role;
  population?: string;
  valid_for_ms?: number;
  uses_max?: number;
  per_minute_max?: number | null;
  attributes?: Record<string, string>;
}

export interface Answered {
  status: number;
  body: unknown;
}

export class MockAccess {
  private readonly tokens: Token[];
  private readonly accounts: Account[];

  constructor(nowMs: number) {
    const token = (kind: Token["kind"], label: string, ageDays: number, more: Partial<Token>): Token => ({
      id: `token_${digits(32, ageDays, label.length)}`,
      kind,
      label,
      created_at_ms: nowMs - ageDays * DAY_MS,
      uses: 0,
      ...more,
    });
    this.tokens = [
      token("enrolment", "site north", 30, {
        population: "demo",
        uses: 212,
        uses_max: 500,
        per_minute_max: 30,
        last_used_at_ms: nowMs - 240_000,
        expires_at_ms: nowMs + 60 * DAY_MS,
        attributes: { site: "north" },
      }),
      token("enrolment", "app 4.2", 12, { population: "keyboard", uses: 88, per_minute_max: 600 }),
      token("enrolment", "pilot", 60, { population: "demo", uses: 12, uses_max: 12 }),
      token("operator", "first operator", 41, { role: "admin", last_used_at_ms: nowMs - 20_000 }),
      token("operator", "weekly report", 5, { role: "viewer", population: "demo", expires_at_ms: nowMs + 25 * DAY_MS }),
      token("operator", "old script", 90, { role: "operator", revoked_at_ms: nowMs - 3 * DAY_MS }),
    ];
    const account = (name: string, role: Role, ageDays: number, more: Partial<Account>): Account => ({
      name,
      role,
      created_at_ms: nowMs - ageDays * DAY_MS,
      password_at_ms: nowMs - ageDays * DAY_MS,
      ...more,
    });
    this.accounts = [
      account("ada", "admin", 41, {}),
      account("grace", "operator", 20, { population: "keyboard" }),
      account("linus", "viewer", 30, { revoked_at_ms: nowMs - DAY_MS }),
    ];
  }

  /** The answer to a call below `/tokens` or `/accounts`. */
  answer([first, id, what]: string[], method: string, body: string, nowMs: number): Answered {
    if (first === "tokens") return this.ofTokens(id, method, body, nowMs);
    if (what === "sessions")
      return method === "GET"
        ? { status: 200, body: [{ address: "10.1.2.3", ...session(nowMs) }] }
        : { status: 204, body: undefined };
    if (method === "POST") {
      const { name, role, population } = JSON.parse(body) as { name: string; role: Role; population?: string };
      const made: Account = { name, role, created_at_ms: nowMs, password_at_ms: nowMs };
      this.accounts.push(population === undefined ? made : { ...made, population });
      return { status: 201, body: made };
    }
    const account = this.accounts.find(({ name }) => name === id);
    if (account && method === "DELETE") account.revoked_at_ms = nowMs;
    if (account && method === "PUT") account.password_at_ms = nowMs;
    if (id !== undefined) return { status: account ? 204 : 404, body: undefined };
    return { status: 200, body: { items: this.accounts } satisfies Page<Account> };
  }

  private ofTokens(id: string | undefined, method: string, body: string, nowMs: number): Answered {
    if (method === "POST") return { status: 201, body: this.create(JSON.parse(body) as NewToken, nowMs) };
    const token = this.tokens.find((token) => token.id === id);
    if (token && method === "DELETE") token.revoked_at_ms = nowMs;
    if (id !== undefined) return { status: token ? 204 : 404, body: undefined };
    return { status: 200, body: { items: this.tokens } satisfies Page<Token> };
  }

  private create(wanted: NewToken, nowMs: number): CreatedToken {
    const { kind, label = "", role, population, valid_for_ms: life, uses_max: most, attributes } = wanted;
    const made: Token = {
      id: `token_${digits(32, this.tokens.length, 8)}`,
      kind,
      label,
      created_at_ms: nowMs,
      uses: 0,
      ...(role === undefined ? {} : { role }),
      ...(population === undefined ? {} : { population }),
      ...(life === undefined ? {} : { expires_at_ms: nowMs + life }),
      ...(most === undefined ? {} : { uses_max: most }),
      ...(wanted.per_minute_max == null ? {} : { per_minute_max: wanted.per_minute_max }),
      ...(attributes === undefined ? {} : { attributes }),
    };
    this.tokens.push(made);
    return { token: made, secret: `tributary_${kind}_${digits(64, this.tokens.length)}` };
  }
}

function session(nowMs: number) {
  return { created_at_ms: nowMs - 3_600_000, last_used_at_ms: nowMs - 60_000, expires_at_ms: nowMs + 11 * 3_600_000 };
}
