// A page with the SDK takes part in rounds of the coordinator at PREDICTOR_URL, as the file PREDICTOR_EXAMPLES
// says, with the examples in it. The Rust test that runs this file answers at PREDICTOR_GATE once the coordinator
// is stopped, and then gets the predictions of the rows in PREDICTOR_ROWS: by the client's own model, and by the
// exported file PREDICTOR_FILE.

import { readFileSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { launch } from "./chromium";

interface Given {
  options: { server: string; token: string; store: string };
  job: string;
  rounds: number;
  shape: number[];
  inputs: number[];
  labels: number[];
}

interface Model {
  predict(row: Row): Promise<unknown>;
}

interface Client {
  runOnce(examples: object): Promise<{ kind: string }>;
  model(job: string): Promise<Model | null>;
  close(): void;
}

type Row = Record<string, string | number | null>;

declare global {
  interface Window {
    sdk: { Client: new (options: object) => Client; Model: { fromBytes(bytes: Uint8Array): Promise<Model> } };
    models: Model[];
  }
}

/** Runs in the page: contributes to all rounds. */
async function contribute({ options, rounds, shape, inputs, labels }: Given): Promise<void> {
  const client = new window.sdk.Client({ ...options, attributes: { kind: "page" }, waitMs: 30_000 });
  for (let round = 0; round < rounds; ) {
    const outcome = await client.runOnce({ shape, inputs, labels });
    if (outcome.kind === "contributed") round++;
    else if (outcome.kind !== "nothing-to-do") throw new Error(JSON.stringify(outcome));
  }
  client.close();
}

/** Runs in the page: opens the client's own model and that of a file, and says what it answers to a damaged one. */
async function openModels({ options, job, file }: Given & { file: number[] }): Promise<string[]> {
  const { Client, Model } = window.sdk;
  const client = new Client(options);
  const bytes = Uint8Array.from(file);
  window.models = [(await client.model(job))!, await Model.fromBytes(bytes)];
  const other = await client.model("other");
  const damaged = await Model.fromBytes(bytes.subarray(0, 40)).then(String, ({ kind }: { kind: string }) => kind);
  client.close();
  return [String(other), damaged];
}

it("a page predicts with what it has learned while there is no coordinator", async () => {
  const { PREDICTOR_URL: url, PREDICTOR_GATE: gate } = process.env;
  const given: Given = JSON.parse(readFileSync(process.env.PREDICTOR_EXAMPLES!, "utf8"));
  const rows: Row[] = JSON.parse(readFileSync(process.env.PREDICTOR_ROWS!, "utf8"));
  const { page, close } = await launch(url!, { trusting: true });
  onTestFinished(close);
  await page.goto(`${url}/join/`);
  // As text: the tools of the test would replace an import in a function.
  await page.evaluate('import("/join/tributary/index.js").then((sdk) => { window.sdk = sdk; })');
  await page.evaluate(contribute, given);
  // The file is there once the rounds are over, which the first answer of the gate says.
  await fetch(`${gate}/contributed`, { method: "POST" });
  const file = [...readFileSync(process.env.PREDICTOR_FILE!)];
  expect(await page.evaluate(openModels, { ...given, file })).toEqual(["null", "model"]);
  await fetch(`${gate}/opened`, { method: "POST" });
  const told = await page.evaluate(
    (rows) => Promise.all(window.models.map((model) => Promise.all(rows.map((row) => model.predict(row))))),
    rows,
  );
  const lacking = await page.evaluate(
    () => window.models[0]!.predict({ x1: 1 }).catch(({ kind, message }) => `${kind}: ${message}`),
    null,
  );
  expect(lacking).toBe("model: x2 is missing in the row");
  const headers = { "content-type": "application/json" };
  await fetch(`${gate}/predicted`, { method: "POST", headers, body: JSON.stringify(told) });
});
