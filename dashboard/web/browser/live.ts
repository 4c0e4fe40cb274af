// A real coordinator for all tests of a run: the demo, with real clients, one of them too slow and one that dies.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { type Line, start } from "./coordinator";

/** Rounds that are there before the first test, so that every view has something to show. */
const ROUNDS_MIN = 4;
/** More than fit in any run of the tests: the job stays live until the process is ended. */
const ROUNDS = "1000000";

declare module "vitest" {
  interface ProvidedContext {
    coordinator: { base: string; token: string } | undefined;
  }
}

function hasHistory(lines: readonly Line[]): boolean {
  const rounds = lines.filter(({ event }) => event === "round");
  return rounds.length >= ROUNDS_MIN && rounds.some(({ stragglers }) => (stragglers?.length ?? 0) > 0);
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), "tributary-live-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const demo = await start(["demo", "--keep", "--rounds", ROUNDS], hasHistory, folder);
    // The address that a person clicks is what the tests sign in by.
    const { origin, hash } = new URL(demo.started.dashboard_url!);
    const token = new URLSearchParams(hash.slice(1)).get("token")!;
    project.provide("coordinator", { base: origin, token });
    return async () => {
      await demo.kill();
      remove();
    };
  } catch (error) {
    remove();
    throw error;
  }
}
