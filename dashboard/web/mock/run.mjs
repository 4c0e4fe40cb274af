// Starts the mock on port 7071 (or PORT) with the built page: `npm run build && npm run mock`. It is also the API of
// `npm run dev`.

import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const { module } = await runnerImport(fileURLToPath(new URL("./server.ts", import.meta.url)));
const dist = fileURLToPath(new URL("../dist", import.meta.url));
const mock = await module.serve(process.env.DIST ?? dist, Number(process.env.PORT ?? 7071));
console.log(`${mock.url}/#token=${module.TOKEN}`);
