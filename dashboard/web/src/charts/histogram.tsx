// A histogram of durations or of plain numbers.

import { axisReals, duration, plural, real } from "../lib/format";
import { bins, extent, linear, niceStep, niceTimeStep, ticks } from "../lib/scale";
import { useWidth } from "./measure";

const HEIGHT = 200;
const BASE = 154;
/** Room for the title of the count axis and its largest number. */
const LEFT = 46;
/** Fewer distinct values are listed: bars of one value each say nothing about a distribution. */
const DISTINCT_MIN = 3;

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
  /** What the values are, with their unit: the title of the axis. */
  xTitle: string;
  /** The chart in words, for screen readers. */
  description: string;
}) {
  const [frame, width] = useWidth<HTMLDivElement>();
  const { values, markers = [] } = props;
  const unit: Unit = UNITS[props.unit ?? "time"];
  const few = fewValues(values, unit);
  const counted = bins(values, 24, unit.step);
  const [, high] = extent([...counted.map((bin) => bin.to), ...markers.map((marker) => marker.at * 1.04)]);
  const low = Math.min(counted[0]?.from ?? 0, ...markers.map((marker) => marker.at));
  // The axis begins at zero unless that would squeeze everything into a corner.
  const domain: [number, number] = [low < high * 0.6 ? 0 : low, high];
  const x = linear(domain, [LEFT, Math.max(LEFT + 1, width - 4)]);
  const most = Math.max(1, ...counted.map((bin) => bin.count));
  const y = linear([0, most], [BASE, 26]);
  const steps = ticks(domain[0], domain[1], unit.step(domain[1] - domain[0], Math.max(2, (width - LEFT) / 100)));
  const texts = unit.all(steps);
  return (
    <div ref={frame} class={few ? "few" : "svg-frame h-200"}>
      {few && <Few values={few} noun={props.noun} xTitle={props.xTitle} />}
      {!few && width > 0 && (
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
                  data-tip={`${plural(bin.count, props.noun)}: ${unit.one(bin.from)} to ${unit.one(bin.to)}`}
                />
              ),
          )}
          {countTicks(most).map((tick) => (
            <text key={tick} class="tick-text" x={LEFT - 8} y={y(tick) + 4} text-anchor="end">
              {tick}
            </text>
          ))}
          <text class="tick-text" transform={`translate(10 ${(BASE + 26) / 2}) rotate(-90)`} text-anchor="middle">
            {`${props.noun}s`}
          </text>
          <text class="tick-text" x={(LEFT + width) / 2} y={HEIGHT - 6} text-anchor="middle">
            {props.xTitle}
          </text>
          <path class="axis" d={`M${LEFT} ${BASE + 0.5}H${width}`} />
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

/** Whole numbers up to the highest bar. */
function countTicks(most: number): number[] {
  return ticks(0, most, Math.max(1, niceStep(most, 3)));
}

interface FewValue {
  text: string;
  count: number;
}

/** The values as texts with their counts, when there are too few different ones for a drawing. */
function fewValues(values: readonly number[], unit: Unit): FewValue[] | undefined {
  const counts = new Map<string, number>();
  for (const value of values.toSorted((a, b) => a - b)) {
    const text = unit.one(value);
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  if (counts.size >= DISTINCT_MIN) return undefined;
  return [...counts].map(([text, count]) => ({ text, count }));
}

/** One or two values, each with the number of its clients. */
function Few({ values, noun, xTitle }: { values: readonly FewValue[]; noun: string; xTitle: string }) {
  return (
    <>
      <p class="quiet">{xTitle}</p>
      <ul>
        {values.map(({ text, count }) => (
          <li key={text}>
            <b>{text}</b> {plural(count, noun)}
          </li>
        ))}
      </ul>
    </>
  );
}

/** Whether a bar lies beyond the deadline that is tried. */
function isLate(from: number, markers: readonly Marker[]): boolean {
  const tried = markers.find((marker) => marker.tone === "other");
  return tried !== undefined && from >= tried.at;
}
