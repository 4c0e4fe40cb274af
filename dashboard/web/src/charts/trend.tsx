// A value over the last hour: a curve from zero, its newest value, and its range in words.

import { linear } from "../lib/scale";

const WIDTH = 200;
const HEIGHT = 48;

/** One measure of samples. A sample without it is a gap in the curve. */
export function Trend<T extends { at_ms: number }>(props: {
  name: string;
  samples: readonly T[];
  of: (sample: T) => number | undefined;
  format: (value: number) => string;
}) {
  const { samples, of, format } = props;
  const known = samples.map(of).filter((value) => value !== undefined);
  const most = Math.max(0, ...known);
  const newest = known.at(-1);
  const text = newest === undefined ? "not known" : `${format(newest)} now, at most ${format(most)}`;
  return (
    <div class="trend">
      <p class="figure-label">{props.name}</p>
      <p class="figure-value">{newest === undefined ? "–" : format(newest)}</p>
      <svg
        class="spark stroke-accent"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${props.name}: ${text}`}
        data-tip={`${props.name}: ${text}`}
      >
        <path class="spark-base" d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} />
        <path d={path(samples, of, most)} fill="none" stroke-width="1.75" vector-effect="non-scaling-stroke" />
      </svg>
      <p class="hint">at most {format(most)}</p>
    </div>
  );
}

function path<T extends { at_ms: number }>(
  samples: readonly T[],
  of: (sample: T) => number | undefined,
  most: number,
): string {
  const first = samples[0];
  const last = samples.at(-1);
  if (!first || !last) return "";
  const x = linear([first.at_ms, last.at_ms], [2, WIDTH - 2]);
  const y = linear([0, most || 1], [HEIGHT - 3, 4]);
  let pen = "M";
  return samples
    .map((sample) => {
      const value = of(sample);
      if (value === undefined) {
        pen = "M";
        return "";
      }
      const step = `${pen}${x(sample.at_ms).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
      return step;
    })
    .join("");
}
