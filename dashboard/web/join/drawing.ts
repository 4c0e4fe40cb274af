// From strokes to what the digits' job expects: 8 × 8 numbers from 0 to 1.
//
// The UCI digits were made from bitmaps of 32 × 32 points: each number is the share of a block of 4 × 4 points with
// ink. A drawing is first moved and scaled as theirs are, so its place on the pad does not matter.

export interface Point {
  x: number;
  y: number;
}
export type Stroke = Point[];

/** Points of a side of the bitmap, and of a block. */
const BITMAP = 32;
const BLOCK = 4;
export const SIDE = BITMAP / BLOCK;
/** What the ink's box may fill of the bitmap. */
const WIDTH_MAX = 22;
const HEIGHT_MAX = 29;
/** Half of a pen's width, in points. */
const PEN = 2;

/** The drawing as sixteenths of ink, row by row. */
export function sixteenths(strokes: readonly Stroke[]): number[] {
  const points = strokes.flat();
  const left = Math.min(...points.map(({ x }) => x));
  const right = Math.max(...points.map(({ x }) => x));
  const top = Math.min(...points.map(({ y }) => y));
  const bottom = Math.max(...points.map(({ y }) => y));
  // A dot is not blown up.
  const size = Math.max(right - left, bottom - top, 1e-3);
  const scale = Math.min(WIDTH_MAX / Math.max(right - left, size / 8), HEIGHT_MAX / Math.max(bottom - top, size / 8));
  const place = ({ x, y }: Point): Point => ({
    x: BITMAP / 2 + (x - (left + right) / 2) * scale,
    y: BITMAP / 2 + (y - (top + bottom) / 2) * scale,
  });
  const placed = strokes.filter((stroke) => stroke.length > 0).map((stroke) => stroke.map(place));
  const counts = new Array<number>(SIDE * SIDE).fill(0);
  for (let row = 0; row < BITMAP; row++) {
    for (let column = 0; column < BITMAP; column++) {
      const here = { x: column + 0.5, y: row + 0.5 };
      if (placed.some((stroke) => touches(stroke, here)))
        counts[Math.floor(row / BLOCK) * SIDE + Math.floor(column / BLOCK)]! += 1;
    }
  }
  return counts;
}

function touches(stroke: Stroke, point: Point): boolean {
  return stroke.some((to, index) => distance(point, stroke[Math.max(index - 1, 0)]!, to) <= PEN);
}

/** From a point to a line between two others. */
function distance(point: Point, from: Point, to: Point): number {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = dx * dx + dy * dy;
  const along = length === 0 ? 0 : ((point.x - from.x) * dx + (point.y - from.y) * dy) / length;
  const share = Math.min(Math.max(along, 0), 1);
  return Math.hypot(point.x - from.x - share * dx, point.y - from.y - share * dy);
}
