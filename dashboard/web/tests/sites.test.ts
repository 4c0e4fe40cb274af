// The table of fixed models and clients.

import { expect, it } from "vitest";
import type { Assignment } from "../src/api/types";
import { siteTable } from "../src/lib/sites";

const of = (number: number, changes: Partial<Assignment> = {}) =>
  ({ client: `client_${number}`, client_number: number, state: "reported", ...changes }) as Assignment;

it("each client has its result of each model, and a gap where it was not drawn", () => {
  const [late, died] = [of(2, { state: "expired" }), of(1, { state: "failed", reason: "out_of_memory" })];
  const sites = siteTable([[of(2), of(1)], [late], [died, of(3)]]);
  expect(sites.map(({ number }) => number)).toEqual([1, 2, 3]);
  expect(sites.map(({ results }) => results.map((result) => result?.state))).toEqual([
    ["reported", undefined, "failed"],
    ["reported", "expired"],
    [undefined, undefined, "reported"],
  ]);
});
