import { describe, expect, it } from "vitest";
import { commandOf, rowAfter } from "../src/lib/keys";

const pressed = (key: string, rest: object = {}) =>
  commandOf({ key, ctrlKey: false, metaKey: false, altKey: false, defaultPrevented: false, typing: false, ...rest });

describe("the keys of the page", () => {
  it("go to the search and through the rows", () => {
    expect(["/", "j", "k", "x", "J"].map((key) => pressed(key))).toEqual([
      "search",
      "next",
      "previous",
      undefined,
      undefined,
    ]);
  });

  it("do nothing while somebody types, or for what the browser does itself", () => {
    for (const rest of [
      { typing: true },
      { ctrlKey: true },
      { metaKey: true },
      { altKey: true },
      { defaultPrevented: true },
    ])
      expect(pressed("/", rest)).toBeUndefined();
  });

  it("stop at the first and the last row", () => {
    expect(rowAfter("next", -1, 3)).toBe(0);
    expect(rowAfter("next", 1, 3)).toBe(2);
    expect(rowAfter("next", 2, 3)).toBeUndefined();
    expect(rowAfter("previous", 2, 3)).toBe(1);
    expect(rowAfter("previous", 0, 3)).toBeUndefined();
    expect(rowAfter("previous", -1, 3)).toBeUndefined();
    expect(rowAfter("next", -1, 0)).toBeUndefined();
  });
});
