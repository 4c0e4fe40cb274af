import { afterEach, describe, expect, it, vi } from "vitest";
import { ServerClock } from "../src/api/clock";
import { Api, ApiError, apiUrl, problemOf } from "../src/api/http";
import {
  forgetToken,
  hasSession,
  looksLikeOperatorToken,
  markSession,
  type Stores,
  savedToken,
  saveToken,
  tokenInHash,
} from "../src/api/session";

const BASE = "https://fl.example.org/river/#/jobs";

vi.stubGlobal("document", { baseURI: BASE });
afterEach(() => vi.unstubAllGlobals());

describe("addresses", () => {
  it("stay under the path of the page, and leave empty parts of the query out", () => {
    expect(apiUrl("/jobs/job_1/rounds", { task: "train", phase: "", after: undefined, limit: 5 }, BASE)).toBe(
      "https://fl.example.org/river/operator/v1/jobs/job_1/rounds?task=train&limit=5",
    );
  });
});

describe("answers", () => {
  const answer = (status: number, body: unknown) => {
    vi.stubGlobal("document", { baseURI: BASE });
    const asked = vi.fn(async (_url: string, _init: RequestInit) => new Response(JSON.stringify(body), { status }));
    vi.stubGlobal("fetch", asked);
    return asked;
  };

  it("of a problem become an error with its detail and request id", async () => {
    answer(409, {
      title: "The name is taken",
      detail: "population shop has a job called digits",
      request_id: "req_1",
      type: "urn:x",
    });
    const error = await new Api("t").json("jobs").catch((caught: unknown) => caught as ApiError);
    expect(error).toMatchObject({
      status: 409,
      title: "The name is taken",
      detail: "population shop has a job called digits",
      requestId: "req_1",
      missing: false,
    });
  });

  it("that are no problem document still say their status", async () => {
    const error = await problemOf(new Response("<html>", { status: 502, statusText: "Bad Gateway" }));
    expect(error).toMatchObject({ status: 502, title: "Bad Gateway" });
  });

  it("of 401 lead back to the sign-in", async () => {
    answer(401, { title: "A valid token is needed" });
    const unauthorized = vi.fn();
    await expect(new Api("t", unauthorized).json("overview")).rejects.toBeInstanceOf(ApiError);
    expect(unauthorized).toHaveBeenCalledOnce();
  });

  it("carry the token out and the coordinator's time in", async () => {
    const asked = answer(200, { now_at_ms: 123 });
    const observed = vi.fn();
    await new Api("tributary_operator_x", () => {}, observed).json("overview");
    expect((asked.mock.calls[0]![1].headers as Record<string, string>).authorization).toBe(
      "Bearer tributary_operator_x",
    );
    expect(observed.mock.calls[0]![0]).toBe(123);
  });

  it("of a session are asked for with the cookie and the header that other sites cannot set", async () => {
    const asked = answer(200, {});
    await new Api(undefined).json("me");
    await new Api("tributary_operator_x").json("me");
    const [bySession, byToken] = asked.mock.calls.map((call) => call[1]);
    expect(bySession).toMatchObject({ credentials: "same-origin", headers: { "x-tributary-request": "dashboard" } });
    expect(bySession!.headers).not.toHaveProperty("authorization");
    expect(byToken).toMatchObject({ credentials: "omit" });
    expect(byToken!.headers).not.toHaveProperty("x-tributary-request");
  });

  it("that do not come are told apart from those that were not wanted any more", async () => {
    vi.stubGlobal("document", { baseURI: BASE });
    vi.stubGlobal("fetch", async () => {
      throw new TypeError("network");
    });
    await expect(new Api("t").json("overview")).rejects.toMatchObject({ status: 0 });
    const abort = new AbortController();
    abort.abort();
    await expect(new Api("t").json("overview", { signal: abort.signal })).rejects.toBeInstanceOf(TypeError);
  });
});

describe("the coordinator's clock", () => {
  it("trusts the shortest exchange, until that is old", () => {
    const clock = new ServerClock(() => 10_000);
    expect(clock.now()).toBe(10_000);
    clock.observe(5_100, 10_000, 10_200);
    expect(clock.now()).toBe(5_000);
    clock.observe(9_000, 10_000, 14_000);
    expect(clock.now()).toBe(5_000);
    clock.observe(5_010, 10_000, 10_020);
    expect(clock.now()).toBe(5_000);
    clock.observe(100_000, 80_000, 84_000);
    expect(clock.now()).toBe(28_000);
  });
});

describe("the token", () => {
  const store = () => {
    const kept = new Map<string, string>();
    return {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => void kept.set(key, value),
      removeItem: (key: string) => void kept.delete(key),
    };
  };

  it("is taken out of the fragment, whose rest stays", () => {
    expect(tokenInHash("#token=tributary_operator_a%2Bb")).toEqual({ token: "tributary_operator_a+b", rest: "#/" });
    expect(tokenInHash("#/jobs/job_1&token=x")).toEqual({ token: "x", rest: "#/jobs/job_1" });
    expect(tokenInHash("#/jobs?tab=token")).toBeUndefined();
  });

  it("is kept for the tab, or for the device when asked, and forgotten in both", () => {
    const stores: Stores = { session: store(), local: store() };
    saveToken(stores, "a", false);
    expect(stores.local.getItem("tributary.token")).toBeNull();
    saveToken(stores, "b", true);
    stores.session = store();
    expect(savedToken(stores)).toBe("b");
    forgetToken(stores);
    expect(savedToken(stores)).toBeUndefined();
  });

  it("is no session, which has only a mark", () => {
    const stores: Stores = { session: store(), local: store() };
    expect(hasSession(stores)).toBe(false);
    markSession(stores, true);
    expect([hasSession(stores), savedToken(stores)]).toEqual([true, undefined]);
    markSession(stores, false);
    expect(hasSession(stores)).toBe(false);
  });

  it("of another kind is noticed before it is sent", () => {
    expect(looksLikeOperatorToken(" tributary_operator_abc ")).toBe(true);
    expect(looksLikeOperatorToken("tributary_enrolment_abc")).toBe(false);
  });
});
