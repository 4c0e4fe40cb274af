// The live feed: one stream of events over all jobs that reconnects where it left off.

import { type Api, ApiError } from "./http";
import { SseParser } from "./sse";
import type { FeedEvent } from "./types";

export type FeedState = "connecting" | "live" | "reconnecting" | "unavailable";

/** Wait before each reconnection of the first minute: a restart takes seconds. */
export const RETRY_MS_MIN = 1_000;
/** Longest wait before a reconnection. */
export const RETRY_MS_MAX = 15_000;
/** Reconnections of the first minute. */
const RETRIES_AT_ONCE = 60;
/** A stream that is silent for so long is given up; the coordinator sends a comment every 15 seconds. */
export const SILENCE_MS_MAX = 45_000;

/** Wait before the n-th reconnection in a row (from 0): a second, later doubled; spread over its upper half. */
export function retryMs(attempt: number, random: number): number {
  const doublings = Math.min(10, Math.max(0, attempt - RETRIES_AT_ONCE));
  const full = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** doublings);
  return full / 2 + (full / 2) * random;
}

type OnEvent = (event: FeedEvent) => void;

/** Follows `/feed`. Events may be lost in an interruption: listeners of `onResumed` then load everything again. */
export class Feed {
  state: FeedState = "connecting";
  private readonly events = new Set<OnEvent>();
  private readonly states = new Set<() => void>();
  private readonly resumptions = new Set<() => void>();
  private lastId = "";
  private stopped = false;
  private abort: AbortController | undefined;
  private wake: (() => void) | undefined;

  constructor(
    private readonly api: Api,
    private readonly random: () => number = Math.random,
  ) {}

  onEvent(listener: OnEvent): () => void {
    this.events.add(listener);
    return () => this.events.delete(listener);
  }

  onState(listener: () => void): () => void {
    this.states.add(listener);
    return () => this.states.delete(listener);
  }

  onResumed(listener: () => void): () => void {
    this.resumptions.add(listener);
    return () => this.resumptions.delete(listener);
  }

  /** Has everything asked again, as after an interruption: something changed of which no event tells. */
  refresh(): void {
    for (const listener of this.resumptions) listener();
  }

  /** Tries at once instead of after the wait: the network is back, or the page is looked at again. */
  hurry(): void {
    this.wake?.();
  }

  stop(): void {
    this.stopped = true;
    this.abort?.abort();
    this.wake?.();
  }

  /** Runs until it is stopped. */
  async run(): Promise<void> {
    let attempt = 0;
    while (!this.stopped) {
      let asked: number | undefined;
      try {
        asked = await this.follow(() => {
          if (attempt > 0) for (const listener of this.resumptions) listener();
          attempt = 0;
        });
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return;
        if (error instanceof ApiError && error.missing) return this.enter("unavailable");
        // The last id is from another database: the next connection starts without one.
        if (error instanceof ApiError && error.status === 400) this.lastId = "";
      }
      if (this.stopped) return;
      this.enter("reconnecting");
      await this.pause(asked ?? retryMs(attempt, this.random()));
      attempt += 1;
    }
  }

  private async follow(connected: () => void): Promise<number | undefined> {
    const abort = new AbortController();
    this.abort = abort;
    let silence: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), SILENCE_MS_MAX);
    };
    heard();
    try {
      const headers: Record<string, string> = this.lastId ? { "last-event-id": this.lastId } : {};
      const response = await this.api.stream("feed", headers, abort.signal);
      connected();
      this.enter("live");
      const parser = new SseParser(this.lastId);
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return parser.retryMs;
        heard();
        const messages = parser.push(value);
        this.lastId = parser.lastId;
        for (const message of messages) this.emit(message.data);
      }
    } finally {
      clearTimeout(silence);
      abort.abort();
    }
  }

  private emit(data: string): void {
    let event: FeedEvent;
    try {
      event = JSON.parse(data) as FeedEvent;
    } catch {
      return; // Not an event that this page can read.
    }
    for (const listener of this.events) listener(event);
  }

  private enter(state: FeedState): void {
    if (this.state === state) return;
    this.state = state;
    for (const listener of this.states) listener();
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
