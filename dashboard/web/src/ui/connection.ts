// What each view needs: the API, the live feed, the coordinator's clock, messages; and hooks over them.

import { createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ServerClock } from "../api/clock";
import { Coalescer } from "../api/coalesce";
import type { Feed, FeedState } from "../api/feed";
import { type Api, ApiError, type Query } from "../api/http";
import type { FeedEvent, Role, Who } from "../api/types";

export interface Connection {
  api: Api;
  feed: Feed;
  clock: ServerClock;
  /** Shows a message for a few seconds; screen readers read it. */
  notify: (text: string, tone?: "good" | "bad") => void;
}

export const ConnectionContext = createContext<Connection | undefined>(undefined);

/** The connection of the view that calls. */
export function useConnection(): Connection {
  const connection = useContext(ConnectionContext);
  if (!connection) throw new Error("a view is shown only within a connection");
  return connection;
}

/** Who is signed in; undefined until the coordinator has said it, null where it does not say it. */
export const WhoContext = createContext<Who | null | undefined>(undefined);

const RANKS: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };

/** Whether the operator has this role or a higher one. The coordinator checks it again. */
export function useMay(role: Role): boolean {
  const who = useContext(WhoContext);
  return who === null || (who !== undefined && RANKS[who.role] >= RANKS[role]);
}

/** The only population that the operator sees; undefined for all. */
export function useScope(): string | undefined {
  return useContext(WhoContext)?.population;
}

/** How often a live view asks again while the feed is down, in milliseconds. */
const POLL_MS = 5_000;

export interface Resource<T> {
  /** The newest answer; it stays while a later request fails. */
  data: T | undefined;
  /** Why the newest request failed. */
  error: ApiError | undefined;
  /** The data is the answer to an earlier query. */
  stale: boolean;
  refresh: () => void;
}

export interface ResourceOptions {
  /** Which events change the answer. */
  live?: ((event: FeedEvent) => boolean) | undefined;
  /** Asks again each time this many milliseconds have passed. */
  pollMs?: number | undefined;
  /** The answer is a text, not JSON. */
  text?: boolean;
}

/**
 * An answer of the API, kept up to date: it is requested again after events, after a reconnection of the feed, and when
 * the page becomes visible. An undefined `path` requests nothing.
 */
export function useResource<T>(
  path: string | undefined,
  query: Query = {},
  options: ResourceOptions = {},
): Resource<T> {
  const { api, feed } = useConnection();
  const key = path === undefined ? "" : `${path}?${JSON.stringify(query)}`;
  const [state, set] = useState<{ key: string; data?: T; error?: ApiError }>({ key: "" });
  const live = useRef(options.live);
  live.current = options.live;
  const refresh = useRef(() => {});
  const follows = options.live !== undefined;
  const { pollMs, text } = options;

  useEffect(() => {
    if (path === undefined) return;
    const abort = new AbortController();
    let missed = false;
    const look = async () => {
      if (document.hidden && missed) return;
      try {
        const request = { query, signal: abort.signal };
        const data = text ? ((await api.text(path, request)) as T) : await api.json<T>(path, request);
        if (!abort.signal.aborted) set({ key, data });
      } catch (error) {
        if (abort.signal.aborted) return;
        const problem = error instanceof ApiError ? error : new ApiError(0, "The answer does not parse", String(error));
        set((before) => ({ ...before, error: problem, ...(before.key === key ? {} : { key, data: undefined as T }) }));
      }
    };
    const coalescer = new Coalescer(look);
    const ask = () => {
      // A hidden page asks once, when it becomes visible.
      missed = document.hidden;
      if (!document.hidden) coalescer.ask();
    };
    const seen = () => {
      if (!document.hidden && missed) ask();
    };
    refresh.current = ask;
    coalescer.ask();
    const timers = [
      pollMs ? setInterval(ask, pollMs) : undefined,
      follows ? setInterval(() => feed.state !== "live" && ask(), POLL_MS) : undefined,
    ];
    const ends = [feed.onEvent((event) => live.current?.(event) && ask()), feed.onResumed(ask)];
    document.addEventListener("visibilitychange", seen);
    return () => {
      abort.abort();
      coalescer.close();
      for (const timer of timers) clearInterval(timer);
      for (const end of ends) end();
      document.removeEventListener("visibilitychange", seen);
    };
  }, [api, feed, key, follows, pollMs]);

  return useMemo(
    () => ({ data: state.data, error: state.error, stale: state.key !== key, refresh: () => refresh.current() }),
    [state, key],
  );
}

/**
 * The coordinator's time in milliseconds since 1970, updated once per period. It stands still while the coordinator is
 * away: what is shown is as of then, and a countdown that went on would end in a deadline of which nobody knows.
 */
export function useNow(periodMs = 1000): number {
  const { clock, feed } = useConnection();
  const [now, set] = useState(() => clock.now());
  useEffect(() => {
    const tick = () => feed.state !== "reconnecting" && set(clock.now());
    const timer = setInterval(tick, periodMs);
    const end = feed.onState(tick);
    return () => {
      clearInterval(timer);
      end();
    };
  }, [clock, feed, periodMs]);
  return now;
}

/** The state of the live feed. */
export function useFeedState(): FeedState {
  const { feed } = useConnection();
  const [state, set] = useState(feed.state);
  useEffect(() => {
    set(feed.state);
    return feed.onState(() => set(feed.state));
  }, [feed]);
  return state;
}
