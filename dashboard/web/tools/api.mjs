// Writes src/api/schema.ts from openapi.json. `npm run api` has the coordinator write openapi.json first.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const { module } = await runnerImport(path("./schema.ts"));
const document = JSON.parse(readFileSync(path("../openapi.json"), "utf8"));
writeFileSync(path("../src/api/schema.ts"), module.schemaSource(document));
