// The browser package survives a bundler: a page that imports it gets its worker and its WebAssembly as files.

import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "vite";
import { afterEach, expect, test } from "vitest";

const PACKAGE = new URL("../../../client-sdk/browser/package", import.meta.url);
/** The package's WebAssembly is larger than what bundlers put into a script. */
const WASM_BYTES = 100_000;

const folder = mkdtempSync(join(tmpdir(), "tributary-bundle-"));
afterEach(() => rmSync(folder, { recursive: true }));

test("Vite emits the worker and the WebAssembly of the browser package", async () => {
  const installed = join(folder, "node_modules/tributary-browser");
  cpSync(PACKAGE, installed, { recursive: true });
  // What `scripts/browser` generates, in name only.
  const generated =
    "export class BrowserClient {}\nexport class BrowserModel {}\nexport class BrowserSets {}\n" +
    "export class BrowserTable {}\n" +
    "export default (file) => WebAssembly.compileStreaming(fetch(file));\n";
  writeFileSync(join(installed, "tributary_browser.js"), generated);
  writeFileSync(join(installed, "tributary_browser_bg.wasm"), new Uint8Array(WASM_BYTES));
  writeFileSync(join(folder, "index.html"), '<script type="module" src="./main.js"></script>');
  writeFileSync(
    join(folder, "main.js"),
    'import { Client } from "tributary-browser";\nglobalThis.client = new Client({});\n',
  );

  const output = await build({ root: folder, configFile: false, logLevel: "error", worker: { format: "es" } });
  const files = [output].flat().flatMap((one) => ("output" in one ? one.output : []));
  const names = files.map((file) => file.fileName);
  const worker = names.find((name) => /worker.*\.js$/.test(name));
  expect(worker, names.join()).toBeDefined();
  expect(
    names.some((name) => name.endsWith(".wasm")),
    names.join(),
  ).toBe(true);
  const page = files.find((file) => /index.*\.js$/.test(file.fileName));
  expect(page && "code" in page && page.code.includes(worker ?? "-"), "the page names the worker").toBe(true);
});
