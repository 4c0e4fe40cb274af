import { expect, test } from "vitest";
import type { ClientAssignment } from "../src/api/types";
import { clientCurves, curveInWords } from "../src/lib/client-curve";

function report(job: string, round: number, loss?: number): ClientAssignment {
  const item = { id: `a${job}${round}`, job, round, task: "train", state: "reported", loss, work_ms: 10 * round };
  return { ...item, assigned_at_ms: 0, ended_at_ms: 10 * round } as unknown as ClientAssignment;
}

test("a client has a curve for each job to which it reported three times, from the oldest report on", () => {
  const [late, evaluated] = [report("a", 9), report("a", 8)];
  const history = [
    { ...late, state: "expired" } as ClientAssignment,
    { ...evaluated, task: "evaluate" } as ClientAssignment,
    report("b", 7),
    report("a", 6, 0.5),
    report("a", 4, 0.7),
    report("b", 3),
    report("a", 1, 0.9),
  ];
  const curves = clientCurves(history);
  expect(curves.map(({ job, loss }) => [job, loss])).toEqual([
    [
      "a",
      [
        [1, 4, 6],
        [0.9, 0.7, 0.5],
      ],
    ],
  ]);
  expect(curveInWords(curves[0]!.loss, String)).toBe("0.9 in round 1, 0.5 in round 6.");
});

test("a job whose reports have no loss has times alone", () => {
  const [curve] = clientCurves([3, 2, 1].map((round) => report("a", round)));
  expect(curve!.loss).toEqual([]);
  expect(curve!.took[0]).toEqual([1, 2, 3]);
  expect(curveInWords([], String)).toBe("");
});
