import { expect, test } from "vitest";
import { ApiError } from "../src/api/http";
import { LOOK_MS, LOOK_MS_ALONE, NodeWatch } from "../src/api/nodes";

const node = (id: string, state: string, jobs: string[]) => ({
  id,
  state,
  leases: jobs.map((job) => ({ job, token: 1, expires_at_ms: 0 })),
});

/** A watch over the answers, one per look, and the number of times that it had everything asked again. */
function watching(answers: (unknown[] | ApiError)[]) {
  let changes = 0;
  const json = async () => {
    const answer = answers.shift();
    if (answer instanceof ApiError) throw answer;
    return { items: answer };
  };
  const watch = new NodeWatch(
    { json } as never,
    () => {
      changes += 1;
    },
    () => false,
  );
  return { look: async () => [await watch.look(), changes] };
}

test("a failover is looked at every two seconds while a coordinator is late, and once when it is over", async () => {
  const { look } = watching([
    [node("north", "alive", []), node("south", "alive", ["job_1"])],
    [node("north", "alive", []), node("south", "late", ["job_1"])],
    [node("north", "alive", []), node("south", "late", ["job_1"])],
    [node("north", "alive", ["job_1"]), node("south", "dead", [])],
    [node("north", "alive", ["job_1"]), node("south", "dead", [])],
  ]);
  expect(await look()).toEqual([LOOK_MS, 0]);
  expect(await look()).toEqual([LOOK_MS, 1]);
  expect(await look()).toEqual([LOOK_MS, 2]);
  expect(await look()).toEqual([LOOK_MS, 3]);
  expect(await look()).toEqual([LOOK_MS, 3]);
});

test("a single coordinator is asked for rarely, and after a refusal not again", async () => {
  const alone = watching([[node("north", "alive", ["job_1"])], new ApiError(503, "", "")]);
  expect(await alone.look()).toEqual([LOOK_MS_ALONE, 0]);
  expect(await alone.look()).toEqual([LOOK_MS_ALONE, 0]);
  const scoped = watching([new ApiError(403, "", "")]);
  expect(await scoped.look()).toEqual([undefined, 0]);
});
