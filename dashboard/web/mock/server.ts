// Serves the built page and the made-up API, with the coordinator's own headers.

import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";
import { answer } from "./routes";
import { World } from "./world";

export const TOKEN = "tributary_operator_mock";

const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
const TICK_MS = 200;
const KEEP_ALIVE_MS = 10_000;
/** As in server/src/api/pages.rs. */
const POLICY = [
  "default-src 'self'",
  "img-src 'self' data:",
  "object-src 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
].join("; ");

export interface Mock {
  url: string;
  world: World;
  /** Breaks every stream and answers nothing for a while, as a restart does. */
  restart: (awayMs: number) => void;
  close: () => Promise<void>;
}

export async function serve(
  dist: string,
  port = 0,
  sizes: { rounds?: number; clients?: number; empty?: boolean } = {},
): Promise<Mock> {
  const world = new World(Date.now(), sizes);
  const streams = new Set<ServerResponse>();
  let awayUntilMs = 0;
  const server = createServer((request, response) => {
    if (Date.now() < awayUntilMs) return void request.socket.destroy();
    void handle(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://mock");
    if (!url.pathname.startsWith("/operator/v1/")) return page(dist, url.pathname, request, response);
    if (url.pathname === "/operator/v1/login") return send(response, 200, { provider: false });
    if (request.headers.authorization !== `Bearer ${TOKEN}`)
      return send(
        response,
        401,
        {
          type: "urn:tributary:problem:unauthorized",
          title: "A valid token is needed",
          status: 401,
          detail: "this operator token is unknown, expired or revoked",
        },
        "application/problem+json",
      );
    const path = url.pathname.slice("/operator/v1".length);
    if (path === "/feed") return feed(request, response);
    let body = "";
    for await (const piece of request) body += piece;
    const {
      status,
      body: value,
      type,
    } = answer(world, { method: request.method ?? "GET", path, query: url.searchParams, body, nowMs: Date.now() });
    send(response, status, value, type);
  }

  function feed(request: IncomingMessage, response: ServerResponse): void {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    // An id without data: the page can resume before anything has happened.
    response.write(`id: ${request.headers["last-event-id"] ?? world.events.at(-1)?.id ?? 0}\n\n`);
    const push = ({ id, event }: { id: number; event: unknown }) =>
      response.write(`id: ${id}\nevent: transition\ndata: ${JSON.stringify(event)}\n\n`);
    const last = Number(request.headers["last-event-id"] ?? Number.NaN);
    if (!Number.isNaN(last)) world.events.filter((entry) => entry.id > last).forEach(push);
    world.listeners.add(push);
    streams.add(response);
    response.on("close", () => {
      world.listeners.delete(push);
      streams.delete(response);
    });
  }

  const tick = setInterval(() => world.tick(Date.now()), TICK_MS);
  const keepAlive = () => {
    for (const stream of streams) stream.write(": alive\n\n");
  };
  const alive = setInterval(keepAlive, KEEP_ALIVE_MS);
  await new Promise<void>((ready) => server.listen(port, "127.0.0.1", ready));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    world,
    restart: (awayMs) => {
      awayUntilMs = Date.now() + awayMs;
      for (const stream of streams) stream.destroy();
      server.closeAllConnections();
    },
    close: () => stop(server, tick, alive),
  };
}

function stop(server: Server, ...timers: NodeJS.Timeout[]): Promise<void> {
  for (const timer of timers) clearInterval(timer);
  server.closeAllConnections();
  return new Promise((done) => server.close(() => done()));
}

function send(response: ServerResponse, status: number, value: unknown, type = "application/json"): void {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(text);
}

async function page(dist: string, pathname: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = normalize(pathname === "/" ? "/index.html" : pathname);
  const gzip = String(request.headers["accept-encoding"] ?? "").includes("gzip") && path !== "/index.html";
  const headers = {
    "content-type": TYPES[extname(path)] ?? "application/octet-stream",
    "cache-control": path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache",
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    ...(gzip ? { "content-encoding": "gzip" } : {}),
  };
  try {
    const content = await readFile(join(dist, gzip ? `${path}.gz` : path));
    response.writeHead(200, headers).end(content);
  } catch {
    response.writeHead(404).end();
  }
}
