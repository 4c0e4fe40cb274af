// A curve of the size of a word.

import type { SparkPoint } from "../api/types";
import { extent, linear } from "../lib/scale";

const WIDTH = 160;
const HEIGHT = 44;

/** A small learning curve without axes. */
export function Sparkline({
  points,
  which,
  label,
  tone,
  small = false,
}: {
  points: readonly SparkPoint[];
  /** Place of the measure in a point: 1 accuracy, 2 loss. */
  which: 1 | 2;
  /** The curve in words, for screen readers. */
  label: string;
  /** Suffix of the class `stroke-<tone>`, which has the colour. */
  tone: string;
  /** Of the height of a line of text. */
  small?: boolean;
}) {
  const known = points.filter((point) => point[which] !== null && point[which] !== undefined);
  const path = sparkPath(known.map((point) => [point[0], point[which]!]));
  return (
    <svg
      class={`spark stroke-${tone} ${small ? "spark-small" : ""}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path class="spark-base" d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} />
      {path && (
        <path
          d={path}
          fill="none"
          stroke-width="1.75"
          stroke-linejoin="round"
          stroke-linecap="round"
          vector-effect="non-scaling-stroke"
        />
      )}
    </svg>
  );
}

/** The SVG path through `[x, y]` points, scaled to the curve's box; empty for fewer than two points. */
export function sparkPath(points: readonly (readonly [number, number])[]): string {
  if (points.length < 2) return "";
  const x = linear(extent(points.map((point) => point[0])), [2, WIDTH - 2]);
  const y = linear(extent(points.map((point) => point[1])), [HEIGHT - 5, 4]);
  return points
    .map((point, index) => `${index ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`)
    .join("");
}
