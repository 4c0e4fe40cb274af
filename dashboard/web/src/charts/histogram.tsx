// A histogram of durations or of plain numbers.

import { axisReals, duration, plural, real } from "../lib/format";
import { bins, extent, linear, niceStep, niceTimeStep, ticks } from "../lib/scale";
import { useWidth } from "./measure";

const HEIGHT = 180;
const BASE = 154;

/** A vertical line at a value. */
export interface Marker {
  at: number;
  label: string;
  tone: "deadline" | "other";
}

interface Unit {
  /** A round width of bins that cuts `span` into about `wanted`. */
  step: (span: number, wanted: number) => number;
  /** A value as text. */
  one: (value: number) => string;
  /** The ticks of an axis as texts. */
  all: (values: readonly number[]) => string[];
}

const UNITS = {
  time: {
    step: niceTimeStep,
    one: duration,
    all: (values) => values.map((value) => (value === 0 ? "0" : duration(value))),
  },
  number: { step: niceStep, one: real, all: axisReals },
} satisfies Record<string, Unit>;

/** How often values occurred. Bars beyond the tried deadline (a marker of tone "other") have the colour of lateness. */
export function Histogram(props: {
  values: readonly number[];
  unit?: keyof typeof UNITS;
  markers?: readonly Marker[];
  /** What is counted, in the singular. */
  noun: string;
  /** The chart in words, for screen readers. */
  description: string;
}) {
  const [frame, width] = useWidth<HTMLDivElement>();
  const { values, markers = [] } = props;
  const unit: Unit = UNITS[props.unit ?? "time"];
  const counted = bins(values, 24, unit.step);
  const [, high] = extent([...counted.map((bin) => bin.to), ...markers.map((marker) => marker.at * 1.04)]);
  const low = Math.min(counted[0]?.from ?? 0, ...markers.map((marker) => marker.at));
  // The axis begins at zero unless that would squeeze everything into a corner.
  const domain: [number, number] = [low < high * 0.6 ? 0 : low, high];
  const x = linear(domain, [4, Math.max(5, width - 4)]);
  const most = Math.max(1, ...counted.map((bin) => bin.count));
  const y = linear([0, most], [BASE, 26]);
  const steps = ticks(domain[0], domain[1], unit.step(domain[1] - domain[0], Math.max(2, width / 100)));
  const texts = unit.all(steps);
  return (
    <div ref={frame} class="svg-frame h-180">
      {width > 0 && (
        <svg width={width} height={HEIGHT} role="img" aria-label={props.description}>
          {steps.map((tick, index) => (
            <g key={tick} class="tick">
              <path d={`M${x(tick)} 20V${BASE}`} />
              <text x={Math.min(Math.max(x(tick), 14), width - 20)} y={BASE + 18} text-anchor="middle">
                {texts[index]}
              </text>
            </g>
          ))}
          {counted.map(
            (bin) =>
              bin.count > 0 && (
                <rect
                  key={bin.from}
                  class={`bar ${isLate(bin.from, markers) ? "bar-late" : ""}`}
                  x={x(bin.from) + 0.5}
                  width={Math.max(1, x(bin.to) - x(bin.from) - 1)}
                  y={y(bin.count)}
                  height={BASE - y(bin.count)}
                >
                  <title>{`${plural(bin.count, props.noun)}: ${unit.one(bin.from)} to ${unit.one(bin.to)}`}</title>
                </rect>
              ),
          )}
          <path class="axis" d={`M0 ${BASE + 0.5}H${width}`} />
          {markers.map((marker) => (
            <g key={marker.tone} class={`marker marker-${marker.tone}`}>
              <path d={`M${x(marker.at)} ${marker.tone === "deadline" ? 2 : 14}V${BASE}`} />
              <text
                x={x(marker.at) + (x(marker.at) > width * 0.7 ? -5 : 5)}
                y={marker.tone === "deadline" ? 11 : 23}
                text-anchor={x(marker.at) > width * 0.7 ? "end" : "start"}
              >
                {marker.label}
              </text>
            </g>
          ))}
        </svg>
      )}
    </div>
  );
}

/** Whether a bar lies beyond the deadline that is tried. */
function isLate(from: number, markers: readonly Marker[]): boolean {
  const tried = markers.find((marker) => marker.tone === "other");
  return tried !== undefined && from >= tried.at;
}
