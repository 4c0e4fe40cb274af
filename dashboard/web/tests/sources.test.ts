import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
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

/** The files of `src`, each with those that it imports. */
function imports(): Map<string, string[]> {
  const files = sources(join(DASHBOARD, "web/src")).filter((path) => /\.tsx?$/.test(path));
  const imported = (path: string) =>
    [...readFileSync(path, "utf8").matchAll(/\b(?:from|import) "(\.[^"]+)"/g)].flatMap(([, to = ""]) => {
      const target = join(dirname(path), to);
      const found = [target, `${target}.ts`, `${target}.tsx`].filter((file) => files.includes(file));
      if (found.length === 0 && !/\.(css|svg)$/.test(to)) throw new Error(`${path} imports ${to}, which is no source`);
      return found;
    });
  return new Map(files.map((path) => [path, imported(path)]));
}

/** A way along imports from a file back to itself, if there is one. */
function circle(graph: Map<string, string[]>, start: string): string[] | undefined {
  const ways = [[start]];
  const seen = new Set<string>();
  for (let way = ways.shift(); way !== undefined; way = ways.shift()) {
    for (const next of graph.get(way.at(-1) ?? "") ?? []) {
      if (next === start) return [...way, start];
      if (!seen.has(next)) ways.push([...way, next]);
      seen.add(next);
    }
  }
  return undefined;
}

it("no sources import each other in a circle", () => {
  const graph = imports();
  expect(graph.size).toBeGreaterThan(50);
  const circles = [...graph.keys()].flatMap((path) => circle(graph, path)?.join(" -> ") ?? []);
  expect(circles).toEqual([]);
  expect(
    circle(
      new Map([
        ["a", ["b"]],
        ["b", ["c", "a"]],
        ["c", []],
      ]),
      "a",
    ),
  ).toEqual(["a", "b", "a"]);
});

it("the types of the API are those of openapi.json; `npm run api` writes them", () => {
  const web = join(DASHBOARD, "web");
  const document = JSON.parse(readFileSync(join(web, "openapi.json"), "utf8"));
  expect(readFileSync(join(web, "src/api/schema.ts"), "utf8")).toBe(schemaSource(document));
});
