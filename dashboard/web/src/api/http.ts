// Requests to the operator API: bearer token or session cookie in, JSON or a problem out.

import type { Problem } from "./types";

/** What went wrong with a request; status 0 means that no answer came at all. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly type = "",
    readonly requestId?: string,
  ) {
    super(detail || title);
  }

  /** The path or its object does not exist: it was deleted, or the coordinator is older than this page. */
  get missing(): boolean {
    return this.status === 404 || this.status === 405 || this.status === 410;
  }
}

/** Shows the coordinator that a request with a cookie comes from this page: other sites cannot set it. */
const REQUESTED_BY = "x-tributary-request";

export type Query = Record<string, string | number | boolean | undefined>;

/** Where the API is, relative to the page, so that a proxy may add a path. */
export function apiUrl(path: string, query: Query = {}, base: string = document.baseURI): string {
  const url = new URL(`operator/v1/${path.replace(/^\//, "")}`, base);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url.href;
}

/** Reads a failed response; a body that is no problem document becomes one. */
export async function problemOf(response: Response): Promise<ApiError> {
  const fallback = new ApiError(response.status, response.statusText || `Status ${response.status}`, "");
  try {
    const problem = (await response.json()) as Partial<Problem>;
    return new ApiError(
      response.status,
      problem.title ?? fallback.title,
      problem.detail ?? "",
      problem.type ?? "",
      problem.request_id ?? response.headers.get("x-request-id") ?? undefined,
    );
  } catch {
    return fallback;
  }
}

export interface Request {
  method?: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  query?: Query;
  /** Sent as JSON unless it is a text or a file. */
  body?: unknown;
  contentType?: string;
  accept?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/**
 * Calls the API with a token or, without one, with the session cookie. `unauthorized` is called when it no longer
 * works, `observed` for each answer that has the coordinator's time.
 */
export class Api {
  constructor(
    private readonly token: string | undefined,
    private readonly unauthorized: () => void = () => {},
    private readonly observed: (serverNowMs: number, sentMs: number, receivedMs: number) => void = () => {},
  ) {}

  /** The response as it is, once its status says success. */
  async send(path: string, request: Request = {}): Promise<Response> {
    const headers: Record<string, string> = {
      accept: request.accept ?? "application/json",
      ...request.headers,
    };
    if (this.token !== undefined) headers.authorization = `Bearer ${this.token}`;
    else headers[REQUESTED_BY] = "dashboard";
    if (request.body !== undefined) headers["content-type"] = request.contentType ?? "application/json";
    const asIs = typeof request.body === "string" || request.body instanceof Blob;
    const body =
      request.body === undefined ? null : asIs ? (request.body as string | Blob) : JSON.stringify(request.body);
    let response: Response;
    try {
      response = await fetch(apiUrl(path, request.query), {
        method: request.method ?? "GET",
        headers,
        body,
        signal: request.signal ?? null,
        cache: "no-store",
        credentials: this.token === undefined ? "same-origin" : "omit",
      });
    } catch (error) {
      if (request.signal?.aborted) throw error;
      throw new ApiError(0, "The coordinator does not answer", "It may be restarting; the page tries again by itself.");
    }
    if (response.status === 401) this.unauthorized();
    if (!response.ok) throw await problemOf(response);
    return response;
  }

  /** The answer's JSON. An answer that says `now_at_ms` also sets the page's clock. */
  async json<T>(path: string, request: Request = {}): Promise<T> {
    const sentMs = Date.now();
    const response = await this.send(path, request);
    const receivedMs = Date.now();
    const value = (await response.json()) as T & { now_at_ms?: number };
    if (typeof value.now_at_ms === "number") this.observed(value.now_at_ms, sentMs, receivedMs);
    return value;
  }

  /** A response that goes on: server-sent events. */
  async stream(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    return this.send(path, { accept: "text/event-stream", headers, signal });
  }

  async text(path: string, request: Request = {}): Promise<string> {
    return (await this.send(path, { accept: "*/*", ...request })).text();
  }
}
