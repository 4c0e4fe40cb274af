// A page that answers an analysis, for a test in Rust: `tests/tests/system/outside/answers.rs`.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: { include: ["browser/answers.test.ts"], testTimeout: 120_000 },
});
