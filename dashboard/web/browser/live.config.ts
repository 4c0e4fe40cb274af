// Browser tests against the built program itself: `npm run browser:live`.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: {
    include: ["browser/{flow,filing,look,pictures,times,restart,access,join,gpu}.test.ts"],
    globalSetup: ["browser/live.ts"],
    testTimeout: 240_000,
    hookTimeout: 120_000,
    fileParallelism: false,
  },
});
