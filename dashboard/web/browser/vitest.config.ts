// Browser tests against a mock, or against what BASE_URL names: built page, real Chromium. They run one after the other, since they look at one coordinator.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: {
    include: ["browser/{flow,look,away}.test.ts"],
    env: { DASHBOARD_URL: process.env.BASE_URL ?? "", DASHBOARD_TOKEN: process.env.TOKEN ?? "" },
    testTimeout: 180_000,
    hookTimeout: 60_000,
    fileParallelism: false,
  },
});
