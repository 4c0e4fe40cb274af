// Browser tests of the built page in Chromium, against a mock or the coordinator at BASE_URL. They share it, and
// therefore run one after the other.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: {
    include: ["browser/{flow,filing,keys,look,times,first,away}.test.ts"],
    env: { DASHBOARD_URL: process.env.BASE_URL ?? "", DASHBOARD_TOKEN: process.env.TOKEN ?? "" },
    testTimeout: 180_000,
    hookTimeout: 60_000,
    fileParallelism: false,
  },
});
