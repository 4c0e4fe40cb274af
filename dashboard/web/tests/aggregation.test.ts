import { expect, test } from "vitest";
import { RULES, withRule } from "../src/lib/aggregation";

const RULE = `[aggregation]\ncombine = "median"\n\n[aggregation.optimizer]\nkind = "adam"\n\n`;
const FILE = `name = "a"\n\n${RULE}[stop]\nrounds = 3\n`;
const rule = (name: string) => RULES.find((entry) => entry.name === name)!;

test("a rule replaces the sections of another one and nothing else", () => {
  expect(withRule(FILE, rule("FedAvg"))).toBe(`name = "a"\n\n[stop]\nrounds = 3\n`);
  expect(withRule(FILE, rule("Uniform mean"))).toBe(
    `name = "a"\n\n[stop]\nrounds = 3\n\n[aggregation]\ncombine = "uniform_mean"\n`,
  );
});

test("choosing every rule in turn leaves the file as it was", () => {
  const plain = withRule(FILE, rule("FedAvg"));
  const back = RULES.reduce(withRule, FILE);
  expect(withRule(back, rule("FedAvg"))).toBe(plain);
});

test("an algorithm is one line of the training section", () => {
  const file = `name = "a"\n\n[training]\nepochs = 1\n\n[training.optimizer]\nkind = "sgd"\n`;
  const prox = withRule(file, rule("FedProx"));
  expect(prox).toBe(file.replace("epochs", `algorithm = { kind = "fed_prox", mu = 0.01 }\nepochs`));
  expect(withRule(prox, rule("SCAFFOLD"))).toContain(`\nalgorithm = { kind = "scaffold", clients = 100 }\nepochs`);
  expect(withRule(withRule(prox, rule("SCAFFOLD")), rule("FedAvg"))).toBe(file);
});

test("every rule has a name of its own and one sentence", () => {
  expect(new Set(RULES.map(({ name }) => name)).size).toBe(RULES.length);
  for (const { about } of RULES) expect(about.length).toBeLessThan(70);
});
