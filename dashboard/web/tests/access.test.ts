import { describe, expect, it } from "vitest";
import { tokenInHash } from "../src/api/session";
import type { Token } from "../src/api/types";
import { attributesIn, linkWith, listed, tokenState, wholeIn } from "../src/lib/access";
import { searchOf } from "../src/lib/audit";

const token = (more: Partial<Token>): Token => ({
  id: "token_1",
  kind: "enrolment",
  label: "",
  created_at_ms: 0,
  uses: 0,
  ...more,
});

describe("a token", () => {
  it("says whether it works", () => {
    expect(tokenState(token({}), 5)).toBe("valid");
    expect(tokenState(token({ expires_at_ms: 5 }), 5)).toBe("expired");
    expect(tokenState(token({ uses: 2, uses_max: 2 }), 5)).toBe("used up");
    expect(tokenState(token({ uses: 2, uses_max: 2, revoked_at_ms: 1 }), 5)).toBe("revoked");
  });

  it("is listed by kind, the newest first, and once it has ended only on demand", () => {
    const tokens = [
      token({ id: "token_a", created_at_ms: 1 }),
      token({ id: "token_b", created_at_ms: 3, revoked_at_ms: 4 }),
      token({ id: "token_c", created_at_ms: 2 }),
      token({ id: "token_d", kind: "operator" }),
    ];
    const ids = (ended: boolean) => listed(tokens, "enrolment", ended, 9).map(({ id }) => id);
    expect(ids(false)).toEqual(["token_c", "token_a"]);
    expect(ids(true)).toEqual(["token_b", "token_c", "token_a"]);
  });

  it("is described in fields that are read or refused", () => {
    expect(attributesIn(" site=north, class=b=c ")).toEqual({ site: "north", class: "b=c" });
    expect(attributesIn("")).toEqual({});
    expect(attributesIn("north")).toBeUndefined();
    expect([wholeIn(""), wholeIn(" 12 ")]).toEqual([undefined, 12]);
    for (const text of ["0", "-1", "1.5", "many"]) expect(wholeIn(text), text).toBeNaN();
  });

  it("is in a link that opens the view", () => {
    const link = linkWith("https://fl.example.org", "tributary_operator_x", "#/jobs/job_1?tab=models");
    const found = tokenInHash(new URL(link).hash);
    expect(found).toEqual({ token: "tributary_operator_x", rest: "#/jobs/job_1?tab=models" });
    expect(tokenInHash(new URL(linkWith("http://h", "t", "#/")).hash)).toEqual({ token: "t", rest: "#/" });
  });
});

describe("the search of the audit log", () => {
  const search = (text: string) =>
    searchOf(new URLSearchParams(text), (name) => (name === "digits" ? "job_1" : undefined), true);

  it("looks for texts anywhere, for a client by its number, and for a job by its name", () => {
    expect(search("person=ada").person).toBe("*ada*");
    expect(search("subject=client+17").subject).toBe("client 17");
    expect(search("subject=digits").subject).toBe("job_1");
    expect(search("subject=token_4").subject).toBe("*token_4*");
    expect(Object.values(search("")).filter((value) => value !== undefined)).toEqual([]);
  });

  it("has whole days", () => {
    const { since_at_ms: since, until_at_ms: until } = search("since=2026-11-22&until=2026-11-22");
    expect([since, until]).toEqual([Date.UTC(2026, 10, 22), Date.UTC(2026, 10, 23)]);
    expect(search("since=nonsense").since_at_ms).toBeUndefined();
  });
});
