import { describe, expect, it } from "vitest";
import type { Assignment, ClassStats, CurvePoint, Round } from "../src/api/types";
import { sparkPath } from "../src/charts/sparkline";
import { spansOf } from "../src/charts/timeline";
import { closedAtMs, droppedBy, reportMs, segments, uploadMs } from "../src/lib/assignments";
import { biasSentence, dropRate } from "../src/lib/bias";
import { columns, describe as inWords, targetWallMs } from "../src/lib/curve";
import { percent } from "../src/lib/format";
import { changes, cohortSize, FIELDS, read, typed } from "../src/lib/policy";
import { funnel, merged, shapeEnd, shapeWords } from "../src/lib/shapes";
import { errorLine, fill, TEMPLATES, withName } from "../src/lib/templates";
import { tokens } from "../src/lib/toml";
import { links, parseHash } from "../src/router";

const round = (more: Partial<Round> = {}): Round => ({
  number: 1,
  task: "train",
  phase: "training",
  base_version: 0,
  seed: 1,
  goal: 2,
  minimum: 1,
  cohort: 3,
  reported: 0,
  rejected: 0,
  failed: 0,
  expired: 0,
  opened_at_ms: 0,
  selected_at_ms: 100,
  deadline_at_ms: 1100,
  weight: 0,
  bytes_up: 0,
  bytes_down: 0,
  ...more,
});
const assignment = (more: Partial<Assignment> = {}): Assignment => ({
  id: "a",
  client: "c",
  client_number: 1,
  state: "assigned",
  assigned_at_ms: 100,
  bytes_up: 0,
  bytes_down: 0,
  ...more,
});

describe("the time line of an assignment", () => {
  it("has download, training, upload and wait, without gaps", () => {
    const parts = segments(
      assignment({ state: "reported", fetched_at_ms: 200, upload_at_ms: 500, ended_at_ms: 600 }),
      round({ closed_at_ms: 900 }),
      5000,
    );
    expect(parts).toEqual([
      { kind: "download", fromMs: 100, toMs: 200 },
      { kind: "train", fromMs: 200, toMs: 500 },
      { kind: "upload", fromMs: 500, toMs: 600 },
      { kind: "wait", fromMs: 600, toMs: 900 },
    ]);
  });

  it("goes on to now while the client works", () => {
    expect(segments(assignment({ fetched_at_ms: 200 }), round(), 700).at(-1)).toEqual({
      kind: "train",
      fromMs: 200,
      toMs: 700,
    });
  });

  it("shows the last part of a straggler and of a failure as lost", () => {
    expect(
      segments(
        assignment({ state: "expired", fetched_at_ms: 200, ended_at_ms: 900 }),
        round({ closed_at_ms: 900 }),
        5000,
      ).map(({ kind }) => kind),
    ).toEqual(["download", "lost"]);
    expect(segments(assignment({ state: "failed", ended_at_ms: 300 }), round(), 5000)).toEqual([
      { kind: "lost", fromMs: 100, toMs: 300 },
    ]);
  });

  it("takes the client's word for its work where the coordinator saw no download", () => {
    const parts = segments(
      assignment({ state: "reported", work_ms: 300, ended_at_ms: 600 }),
      round({ closed_at_ms: 600 }),
      5000,
    );
    expect(parts).toEqual([
      { kind: "download", fromMs: 100, toMs: 300 },
      { kind: "train", fromMs: 300, toMs: 600 },
    ]);
  });
});

describe("what another deadline would have dropped", () => {
  it("is what the coordinator says for its own deadlines, and a count for others", () => {
    expect(droppedBy(500, [100, 600, 700], [{ deadline_ms: 500, dropped: 9 }])).toBe(9);
    expect(droppedBy(600, [100, 600, 700])).toBe(1);
  });

  it("counts reports only", () => {
    expect(reportMs(assignment({ state: "expired", ended_at_ms: 900 }))).toBeUndefined();
    expect(reportMs(assignment({ state: "reported", ended_at_ms: 900 }))).toBe(800);
    expect(uploadMs(assignment({ state: "reported", upload_at_ms: 800, ended_at_ms: 900 }))).toBe(100);
  });
});

describe("the phases of a round", () => {
  it("come from its own times when the coordinator lists none", () => {
    expect(spansOf(round({ phase: "committed", closed_at_ms: 900, ended_at_ms: 950 }))).toEqual([
      { phase: "selecting", began_at_ms: 0, ended_at_ms: 100 },
      { phase: "training", began_at_ms: 100, ended_at_ms: 900 },
      { phase: "aggregating", began_at_ms: 900, ended_at_ms: 950 },
    ]);
    expect(closedAtMs(round(), 700)).toBe(700);
    expect(closedAtMs(round({ phase: "abandoned", ended_at_ms: 800 }), 2000)).toBe(800);
  });
});

describe("a learning curve", () => {
  const point = (number: number, more: Partial<CurvePoint> = {}): CurvePoint => ({
    round: number,
    at_ms: number * 1000,
    wall_ms: number * 1000,
    clients_ms: number * 9000,
    bytes_up: number * 10,
    bytes_down: 0,
    reported: 1,
    cohort: 1,
    abandoned: false,
    ...more,
  });

  it("leaves out what was not measured and rises in x", () => {
    const points = [point(2, { accuracy: 0.5 }), point(1), point(3, { accuracy: 0.7, loss: 1 })];
    expect(columns(points, "clients", ["accuracy"])).toEqual([
      [18_000, 27_000],
      [0.5, 0.7],
    ]);
    expect(columns(points, "round", ["accuracy", "loss"])).toEqual([
      [2, 3],
      [0.5, 0.7],
      [null, 1],
    ]);
  });

  it("is told in a sentence", () => {
    const points = [point(1, { accuracy: 0.5 }), point(2, { accuracy: 0.9 }), point(3, { accuracy: 0.8 })];
    expect(inWords(points, "accuracy", "Accuracy", percent)).toBe(
      "Accuracy from 50.0 % at round 1 to 80.0 % at round 3; best 90.0 % at round 2.",
    );
    expect(inWords([], "loss", "Loss", percent)).toBe("Loss: nothing measured yet.");
  });

  it("knows a date from a time since the beginning", () => {
    const target = { accuracy: 0.9, round: 3, clients_ms: 0, bytes_up: 0 };
    expect(targetWallMs({ ...target, at_ms: 5_000 }, 1_000_000)).toBe(5_000);
    expect(targetWallMs({ ...target, at_ms: 1_005_000 }, 1_000_000)).toBe(5_000);
  });

  it("needs two points to be drawn small", () => {
    expect(sparkPath([[1, 1]])).toBe("");
    expect(
      sparkPath([
        [1, 1],
        [2, 2],
      ]),
    ).toMatch(/^M2.0 \S+L158.0 \S+$/);
  });
});

describe("session shapes", () => {
  it("are told in words, and end in a state", () => {
    expect(shapeWords("cadtu+")).toBe("checked in, assigned, downloaded, trained, uploading, done");
    expect(shapeWords("ca?")).toBe("checked in, assigned, ?");
    expect(["cadtu+", "cadtu!", "cadx", "cadi", "cadtu.~", "ca"].map(shapeEnd)).toEqual([
      "reported",
      "rejected",
      "failed",
      "failed",
      "expired",
      "assigned",
    ]);
  });

  it("make a funnel that never widens", () => {
    const steps = funnel([
      { shape: "cadtu+", count: 5 },
      { shape: "cad.", count: 2 },
      { shape: "cau", count: 1 },
    ]);
    expect(steps.map(({ count }) => count)).toEqual([8, 8, 8, 6, 6, 5]);
  });

  it("are counted once each", () => {
    expect(
      merged([
        { shape: "ca", count: 1 },
        { shape: "cad", count: 5 },
        { shape: "ca", count: 2 },
      ]),
    ).toEqual([
      { shape: "cad", count: 5 },
      { shape: "ca", count: 3 },
    ]);
  });
});

describe("bias against a class of devices", () => {
  const stats = (value: string, assigned: number, drop_rate: number): ClassStats => ({
    value,
    clients: 10,
    assigned,
    reported: 0,
    rejected: 0,
    failed: 0,
    expired: 0,
    drop_rate,
    shapes: [],
  });

  it("is named with how much worse it is", () => {
    const found = biasSentence("ram_class", [stats("low", 1000, 0.3), stats("high", 1000, 0.1)]);
    expect(found?.biased).toBe(true);
    expect(found?.text).toContain("“low”");
    expect(found?.text).toContain("3.0 times");
  });

  it("is not claimed from chance or from too little", () => {
    expect(biasSentence("ram_class", [stats("low", 30, 0.12), stats("high", 30, 0.1)])?.biased).toBe(false);
    expect(biasSentence("ram_class", [stats("low", 5, 1), stats("high", 1000, 0.1)])).toBeUndefined();
    expect(
      biasSentence("name", [{ ...stats("client-1", 500, 0.9), clients: 1 }, stats("others", 1000, 0.1)]),
    ).toBeUndefined();
  });

  it("counts whoever was drawn and did not count", () => {
    expect(dropRate({ reported: 6, expired: 2, failed: 1, rejected: 1 })).toBe(0.4);
    expect(dropRate({ reported: 0, expired: 0, failed: 0 })).toBeUndefined();
  });
});

describe("the round policy", () => {
  const policy = {
    updates_goal: 10,
    updates_min: 5,
    over_selection: 1.3,
    available_min: 0,
    selection_timeout_ms: 300_000,
    deadline_ms: 600_123,
    backoff_ms: 1000,
    backoff_max_ms: 600_000,
  };

  it("reads back as it is typed, to the millisecond", () => {
    for (const field of FIELDS) expect(read(field, typed(field, policy))).toEqual({ value: policy[field.key] });
  });

  it("sends only what changed", () => {
    expect(changes(policy, { ...policy, deadline_ms: 5000 })).toEqual({ deadline_ms: 5000 });
  });

  it("refuses what is no number, and counts a cohort as the coordinator does", () => {
    const goal = FIELDS.find(({ key }) => key === "updates_goal")!;
    const deadline = FIELDS.find(({ key }) => key === "deadline_ms")!;
    expect(read(goal, "1.5")).toHaveProperty("error");
    expect(read(deadline, "a while")).toHaveProperty("error");
    expect(cohortSize(10, 1.1)).toBe(11);
    expect(cohortSize(10, 1.3)).toBe(13);
  });
});

describe("job files", () => {
  it("lose nothing when they are coloured", () => {
    for (const { text } of TEMPLATES) {
      const found = tokens(text);
      expect(found.map((token) => token.text).join("")).toBe(text);
      expect(found.some((token) => token.kind === "table" && token.text === "[model]")).toBe(true);
      expect(found.some((token) => token.kind === "comment")).toBe(true);
    }
    const [key] = tokens('deadline_ms = 600_000 # "not a string"').filter(({ kind }) => kind === "key");
    expect(key?.text).toBe("deadline_ms");
    expect(
      tokens('x = "unfinished')
        .map(({ text }) => text)
        .join(""),
    ).toBe('x = "unfinished');
  });

  it("begin with a name that is free and the chosen population", () => {
    const text = fill(TEMPLATES[0]!, "shop", new Set(["first", "first-2"]));
    expect(text).toContain('name = "first-3"');
    expect(text).toContain('population = "shop"');
    expect(withName('name = "a-7"', new Set(["a-7"]))).toBe('name = "a-2"');
  });

  it("point to the line of an error", () => {
    expect(errorLine("not a job file: TOML parse error at line 12, column 3")).toBe(12);
    expect(errorLine("[round] updates_min must be at least 1")).toBeUndefined();
  });
});

describe("addresses of views", () => {
  it("read back", () => {
    expect(parseHash(links.job("job_1", "models"))).toMatchObject({ route: { view: "job", job: "job_1" } });
    expect(parseHash(links.round("job_1", 7, "evaluate")).query.get("task")).toBe("evaluate");
    expect(parseHash(links.round("job_1", 7)).route).toEqual({ view: "round", job: "job_1", round: 7 });
    expect(parseHash(links.newJob()).route).toEqual({ view: "new-job" });
    expect(parseHash(links.client("client_a")).route).toEqual({ view: "client", client: "client_a" });
    for (const hash of ["", "#", "#/"]) expect(parseHash(hash).route).toEqual({ view: "overview" });
  });

  it("that are none lead nowhere", () => {
    for (const hash of [
      "#/nowhere",
      "#/jobs/j/rounds/x",
      "#/jobs/j/rounds/99999999999",
      "#/jobs/%E0%A4%A",
      "#/system/x",
    ]) {
      expect(parseHash(hash).route, hash).toEqual({ view: "unknown" });
    }
  });
});
