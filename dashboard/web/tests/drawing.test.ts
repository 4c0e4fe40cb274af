import { expect, it } from "vitest";
import { SIDE, type Stroke, sixteenths } from "../join/drawing";

const rows = (ink: number[]) => Array.from({ length: SIDE }, (_, row) => ink.slice(row * SIDE, (row + 1) * SIDE));
const one: Stroke[] = [
  [
    { x: 0.5, y: 0.1 },
    { x: 0.5, y: 0.9 },
  ],
];

it("a line from top to bottom fills the two middle columns", () => {
  for (const row of rows(sixteenths(one)).slice(1, -1)) {
    expect(row.slice(0, 3).concat(row.slice(5))).toEqual([0, 0, 0, 0, 0, 0]);
    expect(row.slice(3, 5)).toEqual([8, 8]);
  }
});

it("place and size of a drawing do not matter", () => {
  const small = one.map((stroke) => stroke.map(({ x, y }) => ({ x: x / 4, y: y / 4 + 0.5 })));
  expect(sixteenths(small)).toEqual(sixteenths(one));
});

it("a dot is a dot, and every number is a sixteenth of a block", () => {
  const dot = sixteenths([[{ x: 0.2, y: 0.8 }]]);
  expect(dot.filter((ink) => ink > 0)).toHaveLength(4);
  const circle = Array.from({ length: 40 }, (_, at) => ({ x: Math.cos(at / 6), y: Math.sin(at / 6) }));
  expect(sixteenths([circle]).every((ink) => Number.isInteger(ink) && ink >= 0 && ink <= 16)).toBe(true);
});

it("both ways of a stroke give the same", () => {
  expect(sixteenths(one.map((stroke) => [...stroke].reverse()))).toEqual(sixteenths(one));
});
