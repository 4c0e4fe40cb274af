// Two visitors of the page /join, for a test in Rust: `tests/tests/system/outside/mixed_cohort.rs`.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: { include: ["browser/visitors.test.ts"], testTimeout: 120_000 },
});
