// A line chart on uPlot.

import { useEffect, useId, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { niceStep, niceTimeStep, ticks } from "../lib/scale";
import { colour, useThemeVersion } from "./colours";

export interface Line {
  label: string;
  /** Name of a CSS variable, such as `--accent`. */
  colour: string;
  dashed?: boolean;
  format: (value: number) => string;
}

/** A horizontal line at a value that matters, with its name. */
export interface Guide {
  y: number;
  label: string;
}

export interface LinePlotProps {
  /** Column of x, then one per line; null where there is no value. */
  data: (number | null)[][];
  lines: readonly Line[];
  xLabel: string;
  xFormat: (value: number) => string;
  /** x counts milliseconds: ticks at round times. */
  xTime?: boolean;
  /** x has whole numbers only. */
  xWhole?: boolean;
  /** The ticks of the y axis as texts. */
  yTicks: (values: readonly number[]) => string[];
  /** Ends that the y axis does not pass. */
  yRange?: [number | undefined, number | undefined];
  guides?: readonly Guide[];
  /** Charts of one name share their cursor. */
  sync?: string;
  /** In pixels; a class `plot-<height>` of the style sheet reserves it. */
  height?: number;
  /** The chart in words, for screen readers. */
  description: string;
}

/** Lines over one x axis, with a legend and, under the pointer, a line of text with the values. */
export function LinePlot(props: LinePlotProps) {
  const frame = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLParagraphElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const theme = useThemeVersion();
  const id = useId();
  const height = props.height ?? 240;
  // uPlot takes new data, but no other lines, guides, height or colours: these need a new chart.
  const labels = props.lines.map((line) => line.label);
  const kind = JSON.stringify([props.xLabel, labels, height, theme, props.guides ?? []]);

  useEffect(() => {
    const element = frame.current!;
    const chart = new uPlot(
      options(latest, element.clientWidth, height, readout),
      aligned(latest.current.data),
      element,
    );
    plot.current = chart;
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== chart.width)
        chart.setSize({ width: element.clientWidth, height });
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [kind]);

  useEffect(() => {
    plot.current?.setData(aligned(props.data));
  }, [props.data]);

  return (
    <figure class="plot" aria-describedby={id}>
      <div class="plot-key">
        <ul class="legend">
          {props.lines.map((line) => (
            <li key={line.label}>
              <svg class="line-key" viewBox="0 0 18 4" width="18" height="4" aria-hidden="true">
                <path
                  d="M1 2h16"
                  stroke={`var(${line.colour})`}
                  stroke-width="2.5"
                  stroke-dasharray={line.dashed ? "4 3" : undefined}
                />
              </svg>
              {line.label}
            </li>
          ))}
        </ul>
        <p class="readout" ref={readout} aria-hidden="true" />
      </div>
      <div ref={frame} class={`plot-frame plot-${height}`} role="img" aria-label={props.description} />
      <figcaption id={id} class="unseen">
        {props.description}
      </figcaption>
    </figure>
  );
}

function aligned(data: (number | null)[][]): uPlot.AlignedData {
  return data as unknown as uPlot.AlignedData;
}

function options(
  latest: { current: LinePlotProps },
  width: number,
  height: number,
  readout: { current: HTMLParagraphElement | null },
): uPlot.Options {
  const { lines, sync, guides = [] } = latest.current;
  const muted = colour("--muted");
  const grid = { stroke: colour("--line"), width: 1 };
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: muted, grid, ticks: { show: false }, font };
  return {
    width,
    height,
    padding: [10, 26, 0, 0],
    legend: { show: false },
    cursor: {
      points: { size: 7 },
      drag: { x: true, y: false, setScale: true },
      ...(sync ? { sync: { key: sync } } : {}),
    },
    scales: {
      x: { time: false, range: (_, low, high) => xRange(low, high) },
      y: { range: (_, low, high) => yRange(low, high, latest.current) },
    },
    axes: [
      {
        ...axis,
        size: 30,
        gap: 8,
        splits: (chart, _, low, high) => xSplits(low, high, chart.width, latest.current),
        values: (_, values) => values.map(latest.current.xFormat),
      },
      {
        ...axis,
        size: 52,
        gap: 8,
        splits: (_, __, low, high) => ticks(low, high, niceStep(high - low, height / 48)),
        values: (_, values) => latest.current.yTicks(values),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 1.75,
        spanGaps: true,
        points: { show: (chart: uPlot) => chart.data[0].length <= 40, size: 5, fill: colour(line.colour) },
        ...(line.dashed ? { dash: [5, 4] } : {}),
      })),
    ],
    hooks: {
      setCursor: [(chart) => readOut(chart, latest.current, readout.current)],
      draw: guides.map((guide) => (chart) => drawGuide(chart, guide, muted, font)),
    },
  };
}

function xRange(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  return low === high ? [low - 1, high + 1] : [low, high];
}

function yRange(low: number | null, high: number | null, { yRange, guides = [] }: LinePlotProps): [number, number] {
  const all = [low, high, ...guides.map((guide) => guide.y)].filter((value) => value !== null);
  if (all.length === 0) return [yRange?.[0] ?? 0, yRange?.[1] ?? 1];
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [Math.max(least - room, yRange?.[0] ?? -Infinity), Math.min(most + room, yRange?.[1] ?? Infinity)];
}

function xSplits(low: number, high: number, width: number, { xTime, xWhole }: LinePlotProps): number[] {
  const wanted = Math.max(2, width / 90);
  const step = (xTime ? niceTimeStep : niceStep)(high - low, wanted);
  return ticks(low, high, xWhole ? Math.max(1, step) : step);
}

/** Writes the values under the cursor as text. */
function readOut(chart: uPlot, { lines, xFormat, xLabel }: LinePlotProps, readout: HTMLElement | null): void {
  if (!readout) return;
  const index = chart.cursor.idx;
  const x = index === null || index === undefined ? undefined : chart.data[0][index];
  if (index === null || index === undefined || x === undefined) {
    readout.textContent = "";
    return;
  }
  const values = lines.flatMap((line, at) => {
    const value = chart.data[at + 1]?.[index];
    return value === null || value === undefined ? [] : [`${line.label.toLowerCase()} ${line.format(value)}`];
  });
  readout.textContent = `${xLabel} ${xFormat(x)}: ${values.join(", ") || "not measured"}`;
}

function drawGuide(chart: uPlot, guide: Guide, stroke: string, font: string): void {
  const { ctx, bbox } = chart;
  const y = chart.valToPos(guide.y, "y", true);
  if (y < bbox.top || y > bbox.top + bbox.height) return;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.strokeStyle = stroke;
  ctx.fillStyle = stroke;
  ctx.lineWidth = ratio;
  ctx.setLineDash([2 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = font.replace("11px", `${11 * ratio}px`);
  ctx.textAlign = "left";
  ctx.textBaseline = y - bbox.top < 20 * ratio ? "top" : "bottom";
  ctx.fillText(guide.label, bbox.left + 6 * ratio, ctx.textBaseline === "top" ? y + 4 * ratio : y - 3 * ratio);
  ctx.restore();
}
