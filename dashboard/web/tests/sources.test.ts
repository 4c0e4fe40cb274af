import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { schemaSource } from "../tools/schema";

const DASHBOARD = fileURLToPath(new URL("../..", import.meta.url));
const SOURCE = /\.(ts|tsx|mjs|css|html|svg|jsonc)$/;
const NOT_OURS = ["node_modules", "dist", "screenshots"];
/** As in biome.jsonc; the formatter leaves long texts and comments as they are. */
const COLUMNS_MAX = 120;

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return NOT_OURS.includes(entry.name) ? [] : sources(path);
    return SOURCE.test(entry.name) ? [path] : [];
  });
}

it("no line of the sources is too long to be read", () => {
  const long = sources(DASHBOARD).flatMap((path) =>
    readFileSync(path, "utf8")
      .split("\n")
      .flatMap((line, index) => (line.length > COLUMNS_MAX ? [`${path}:${index + 1}: ${line.length} columns`] : [])),
  );
  expect(long).toEqual([]);
});

it("the types of the API are those of openapi.json; `npm run api` writes them", () => {
  const web = join(DASHBOARD, "web");
  const document = JSON.parse(readFileSync(join(web, "openapi.json"), "utf8"));
  expect(readFileSync(join(web, "src/api/schema.ts"), "utf8")).toBe(schemaSource(document));
});
