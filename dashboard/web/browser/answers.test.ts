// A page with the SDK answers an analysis of the coordinator at ANSWERS_URL, with the enrolment token ANSWERS_TOKEN and
// the columns in the file ANSWERS_TABLE.

import { readFileSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { launch } from "./chromium";

type Table = Record<string, (string | number | null)[]>;

interface Client {
  runSets(sets: object): Promise<{ kind: string }>;
  close(): void;
}

declare global {
  interface Window {
    answering: { Client: new (options: object) => Client };
  }
}

/** Runs in the page: what becomes of a table whose columns differ, and of sessions until one has answered. */
async function answer({ options, table }: { options: object; table: Table }): Promise<string[]> {
  const { Client } = window.answering;
  const uneven = new Client({ ...options, table: () => ({ age: [1, 2], pet: ["cat"] }) });
  const refused = await uneven.runSets({}).catch(({ message }: { message: string }) => message);
  uneven.close();
  const kinds = [String(refused)];
  const client = new Client({ ...options, table: async () => table });
  do kinds.push((await client.runSets({})).kind);
  while (kinds.at(-1) === "nothing-to-do");
  client.close();
  return kinds.filter((kind) => kind !== "nothing-to-do");
}

it("a page answers an analysis from the columns that its code gives", async () => {
  const { ANSWERS_URL: server, ANSWERS_TOKEN: token } = process.env;
  const table: Table = JSON.parse(readFileSync(process.env.ANSWERS_TABLE!, "utf8"));
  const { page, close } = await launch(server!, { trusting: true });
  onTestFinished(close);
  await page.goto(`${server}/join/`);
  // As text: the tools of the test would replace an import in a function.
  await page.evaluate('import("/join/tributary/index.js").then((sdk) => { window.answering = sdk; })');
  const options = { server, token, store: "answers", waitMs: 30_000 };
  const told = await page.evaluate(answer, { options, table });
  expect(told).toEqual(["the column pet has 1 values, and age has 2", "contributed"]);
});
