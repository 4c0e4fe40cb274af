// Starts the built program and ends it again: nothing but processes that were started here.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A dev build, which checks much, is ready within this time on a busy machine, in milliseconds. */
const READY_MS_MAX = 120_000;
/** Last characters of its log that are kept for the message when it does not start. */
const LOG_CHARACTERS_MAX = 4_000;

/** A line that the program prints with `--json`. */
export interface Line {
  event: string;
  url?: string;
  dashboard_url?: string;
  operator_token?: string;
  stragglers?: string[];
}

export interface Coordinator {
  /** Its address without a slash at the end. */
  url: string;
  /** The line with the address. */
  started: Line;
  /** Ends the process at once, as a crash does, and waits until it has ended. */
  kill: () => Promise<void>;
}

/** The program under test: `TRIBUTARY_PROGRAM`, or the dev build of this checkout. */
function program(): string {
  const path =
    process.env.TRIBUTARY_PROGRAM ?? fileURLToPath(new URL("../../../target/debug/tributary", import.meta.url));
  if (!existsSync(path))
    throw new Error(`${path} is missing: cargo build -p tributary, or set TRIBUTARY_PROGRAM to the binary's path`);
  return path;
}

/** Starts `tributary ..arguments --json` and waits until `isReady` of the lines that it has printed. */
export async function start(
  args: string[],
  isReady: (lines: readonly Line[]) => boolean,
  tmpdir: string,
): Promise<Coordinator> {
  // Settings in the environment of the test run must not reach the program.
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("TRIBUTARY_"));
  const child = spawn(program(), [...args, "--json"], {
    env: { ...Object.fromEntries(own), TMPDIR: tmpdir },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const killNow = () => child.kill("SIGKILL");
  process.once("exit", killNow);
  const kill = async () => {
    process.off("exit", killNow);
    killNow();
    await ended;
  };
  try {
    const started = await ready(child, isReady);
    return { url: started.url!.replace(/\/$/, ""), started, kill };
  } catch (error) {
    await kill();
    throw error;
  }
}

/** Asks a coordinator as its operator: posts the body if there is one. */
export function asked(
  { url, started }: Coordinator,
  path: string,
  body?: string,
  type = "application/json",
): Promise<Response> {
  return fetch(`${url}/operator/v1/${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${started.operator_token}`, "content-type": type },
    body,
  });
}

/** The answer to a request that must succeed. */
export async function answered<T>(...request: Parameters<typeof asked>): Promise<T> {
  const response = await asked(...request);
  if (!response.ok) throw new Error(`${request[1]}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

function ready(child: ChildProcess, isReady: (lines: readonly Line[]) => boolean): Promise<Line> {
  let log = "";
  child.stderr!.on("data", (part: Buffer) => {
    log = (log + part.toString()).slice(-LOG_CHARACTERS_MAX);
  });
  return new Promise((resolve, reject) => {
    const fail = (what: string) => reject(new Error(`${child.spawnargs.join(" ")}: ${what}\n${log}`));
    const timer = setTimeout(() => fail("is not ready in time"), READY_MS_MAX);
    const lines: Line[] = [];
    let settled = false;
    // Lines are read on afterwards too: a full pipe would stop the program.
    createInterface({ input: child.stdout! }).on("line", (text) => {
      if (settled) return;
      lines.push(JSON.parse(text) as Line);
      const started = lines.find(({ url }) => url !== undefined);
      if (!started || !isReady(lines)) return;
      settled = true;
      clearTimeout(timer);
      resolve(started);
    });
    child.once("error", (error) => fail(error.message));
    child.once("close", (status) => {
      clearTimeout(timer);
      fail(`ended with status ${status}`);
    });
  });
}
