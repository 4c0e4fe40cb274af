// A page that takes part and predicts, for a test in Rust: `tests/tests/system/outside/predictions.rs`.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: { include: ["browser/predictor.test.ts"], testTimeout: 240_000 },
});
