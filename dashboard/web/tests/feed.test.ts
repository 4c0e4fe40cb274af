import { describe, expect, it } from "vitest";
import { Feed, RETRY_MS_MAX, retryMs } from "../src/api/feed";
import { type Api, ApiError } from "../src/api/http";
import type { FeedEvent } from "../src/api/types";

const event = (sequence: number): string =>
  `id: c${sequence}\ndata: ${JSON.stringify({ sequence, at_ms: 0, job: "job_1", became: "running" })}\n\n`;

/** An API whose stream gives one scripted answer per connection and notes the headers. */
function scripted(answers: (() => Response)[]): { api: Api; headers: Record<string, string>[] } {
  const headers: Record<string, string>[] = [];
  const stream = async (_path: string, sent: Record<string, string>): Promise<Response> => {
    headers.push(sent);
    const next = answers.shift();
    if (!next) return new Promise(() => {});
    return next();
  };
  return { api: { stream } as unknown as Api, headers };
}

function fails(status: number): () => Response {
  return () => {
    throw new ApiError(status, "no", "");
  };
}

describe("the live feed", () => {
  it("goes on after the last event that it saw, and says that it was away", async () => {
    const { api, headers } = scripted([() => new Response(event(1) + event(2)), () => new Response(event(3))]);
    const feed = new Feed(api, () => 0);
    const seen: number[] = [];
    const states: string[] = [];
    let resumed = 0;
    feed.onState(() => {
      states.push(feed.state);
      if (feed.state === "reconnecting") queueMicrotask(() => feed.hurry());
    });
    feed.onResumed(() => (resumed += 1));
    const done = new Promise<void>((enough) =>
      feed.onEvent(({ sequence }: FeedEvent) => {
        seen.push(sequence);
        if (sequence === 3) enough();
      }),
    );
    void feed.run();
    await done;
    feed.stop();
    expect(seen).toEqual([1, 2, 3]);
    expect(headers.slice(0, 2)).toEqual([{}, { "last-event-id": "c2" }]);
    expect(states.slice(0, 3)).toEqual(["live", "reconnecting", "live"]);
    expect(resumed).toBe(1);
  });

  it("ends quietly where there is no feed, and at a refused token", async () => {
    const missing = new Feed(scripted([fails(404)]).api);
    await missing.run();
    expect(missing.state).toBe("unavailable");
    const refused = new Feed(scripted([fails(401)]).api);
    await refused.run();
    expect(refused.state).toBe("connecting");
  });

  it("begins anew where its last id is not understood", async () => {
    const { api, headers } = scripted([() => new Response(event(1)), fails(400), () => new Response(event(2))]);
    const feed = new Feed(api, () => 0);
    feed.onState(() => feed.state === "reconnecting" && queueMicrotask(() => feed.hurry()));
    // The second failure does not change the state, so nobody hurries it; the first wait is the shortest.
    const second = new Promise<void>((seen) => feed.onEvent(({ sequence }) => sequence === 2 && seen()));
    void feed.run();
    await second;
    feed.stop();
    expect(headers).toEqual([{}, { "last-event-id": "c1" }, {}]);
  });

  it("passes over an event that it cannot read", async () => {
    const feed = new Feed(scripted([() => new Response(`data: {broken\n\n${event(5)}`)]).api);
    const first = new Promise<number>((seen) => feed.onEvent(({ sequence }) => seen(sequence)));
    void feed.run();
    expect(await first).toBe(5);
    feed.stop();
  });

  it("tries every second for a minute, then less often up to a limit, and never all clients at once", () => {
    expect([0, 1, 60, 61, 62].map((attempt) => retryMs(attempt, 1))).toEqual([1000, 1000, 1000, 2000, 4000]);
    expect(retryMs(3, 0)).toBe(retryMs(3, 1) / 2);
    expect(retryMs(1000, 1)).toBe(RETRY_MS_MAX);
  });
});
