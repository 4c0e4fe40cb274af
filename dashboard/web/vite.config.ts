// The build of the dashboard and of the page /join: scripts and style sheets under hashed names, each with a gzip file.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** Files for which a gzip pays. */
const COMPRESSIBLE = /\.(html|js|css|svg)$/;

/** Writes `name.gz` beside each text file, so that the coordinator compresses nothing itself. */
function precompressed(): Plugin {
  return {
    name: "precompressed",
    apply: "build",
    writeBundle(options, bundle) {
      for (const name of Object.keys(bundle).filter((name) => COMPRESSIBLE.test(name))) {
        const path = join(options.dir ?? "dist", name);
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  // Relative, so that a proxy may serve the coordinator under a path of its own.
  base: "./",
  plugins: [precompressed()],
  build: {
    target: "es2023",
    // Browsers since 2024: light-dark() stays as it is.
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    outDir: process.env.TRIBUTARY_DASHBOARD_OUT ?? "dist",
    emptyOutDir: true,
    rolldownOptions: { input: ["index.html", "join/index.html"] },
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/operator": "http://127.0.0.1:7071" } },
  test: { include: ["tests/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
