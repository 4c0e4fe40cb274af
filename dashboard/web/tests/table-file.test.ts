import { describe, expect, it } from "vitest";
import { goalOf, HEAD_BYTES, headOf, jobOf, tableOf } from "../src/lib/table-file";

const POINTS = 'x;"the, place";seen;where\n1.5;"a ""b""";2026-01-02;in\nNA;c;2026-01-03;out\n3;c;2026-01-04;edge\n';

describe("a table", () => {
  it("has columns with their kinds, texts and missing values", () => {
    const { columns, rows } = tableOf(POINTS);
    expect(rows).toBe(3);
    expect(columns).toEqual([
      { name: "x", kind: "number", texts: ["1.5", "3"], misses: true },
      { name: "the, place", kind: "category", texts: ['a "b"', "c"], misses: false },
      { name: "seen", kind: "date", texts: ["2026-01-02", "2026-01-03", "2026-01-04"], misses: false },
      { name: "where", kind: "category", texts: ["edge", "in", "out"], misses: false },
    ]);
  });

  it("without a header has numbered columns, and classes in the order of numbers", () => {
    const { columns, rows } = tableOf("1,10\r\n2,9\r\n3,10\r\n");
    expect(rows).toBe(3);
    expect(columns.map(({ name }) => name)).toEqual(["column_0", "column_1"]);
    expect(columns[1]!.texts).toEqual(["9", "10"]);
  });

  it("is refused with the reason", () => {
    for (const [text, why] of [
      ["", "two columns"],
      ["one\n1\n", "two columns"],
      ["a,b\n", "a header alone"],
      ["a,b\n1,2\n1,2,3\n", "Example 2 has 3 fields"],
    ] as const)
      expect(() => tableOf(text), text).toThrow(why);
  });

  it("of which only the head is read ends with a whole line", async () => {
    const line = `${"1".repeat(9)},2\n`;
    const head = await headOf(new Blob(["a,b\n", line.repeat(Math.ceil(HEAD_BYTES / line.length) + 5)]));
    expect(head.isCut).toBe(true);
    expect(head.rows).toBe(Math.floor((HEAD_BYTES - 4) / line.length));
  });
});

describe("its job", () => {
  const table = { ...tableOf(POINTS), isCut: false };

  it("names columns, categories and classes", () => {
    const job = jobOf("my points.csv", table, "where", goalOf(table.columns[3]!), "shop");
    expect(job).toContain('name = "my-points"\npopulation = "shop"');
    expect(job).toContain("input = [4]");
    expect(job).toContain('layers = [{ kind = "linear", out_features = 3 }]  # 3 examples are few');
    expect(job).toContain('target = { name = "where", classes = ["edge", "in", "out"] }');
    expect(job).toContain('  { name = "x", missing = "replace" },');
    expect(job).toContain('  { name = "the, place", kind = "category", categories = ["a \\"b\\"", "c"] },');
    expect(job).toContain('  { name = "seen", kind = "date" },');
    expect(job).toContain('loss = "cross_entropy"');
  });

  it("predicts a number where the target has many of them", () => {
    const rows = Array.from({ length: 25 }, (_, row) => `${row % 3},${row / 2}`);
    const numbers = { ...tableOf(`a,b\n${rows.join("\n")}`), isCut: false };
    expect(goalOf(numbers.columns[1]!)).toBe("number");
    expect(goalOf(numbers.columns[0]!)).toBe("classes");
    const few = (texts: string) => goalOf(tableOf(`a,b\n${texts}`).columns[1]!);
    expect([few("1,2.5\n1,3.0\n"), few("1,2.0\n1,3.0\n"), few("1,yes\n1,2.5\n")]).toEqual([
      "number",
      "classes",
      "classes",
    ]);
    const job = jobOf("n.csv", numbers, "b", "number", "shop");
    expect(job).toContain('loss = "mse"');
    expect(job).toContain('target = { name = "b" }');
    expect(job).toContain("out_features = 1 }");
  });

  it("has a hidden layer where examples are enough for it", () => {
    // 32 (2 + 1) + 2 (32 + 1) parameters.
    const points = (rows: number) => `x,y,where\n${"1,2,in\n3,4,out\n".repeat(rows / 2)}`;
    const of = (rows: number) => jobOf("p.csv", { ...tableOf(points(rows)), isCut: false }, "where", "classes", "shop");
    expect(of(324)).toContain('{ kind = "linear", out_features = 32 },');
    expect(of(322)).not.toContain("out_features = 32");
  });

  it("is refused for one class, and for a column of too many texts", () => {
    const one = { ...tableOf("a,b\n1,x\n2,x\n"), isCut: false };
    expect(() => jobOf("t.csv", one, "b", "classes", "shop")).toThrow("only one class in b");
    const texts = Array.from({ length: 1001 }, (_, row) => `text ${row},${row % 2}`);
    const many = { ...tableOf(`a,b\n${texts.join("\n")}`), isCut: false };
    expect(() => jobOf("t.csv", many, "b", "classes", "shop")).toThrow("The column a has 1001 different texts");
  });
});
