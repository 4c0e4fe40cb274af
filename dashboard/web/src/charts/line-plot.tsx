// A line chart on uPlot.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { axisReals, short } from "../lib/format";
import { logTicks, niceStep, niceTimeStep, ticks } from "../lib/scale";
import { bestAt, smoothed } from "../lib/series";
import { colour, useThemeVersion } from "./colours";
import { drawBest, drawGuide, drawMark, type Guide, type Mark } from "./marks";

export interface Line {
  label: string;
  /** Name of a CSS variable, such as `--accent`. */
  colour: string;
  dashed?: boolean;
  format: (value: number) => string;
  /** It is not drawn itself, and not in the legend: an end of the band. */
  hidden?: boolean;
  /** Which value is the best one, which gets a ring: the index of it, or the first of the highest or lowest. */
  best?: "highest" | "lowest" | number;
}

export interface LinePlotProps {
  title: string;
  /** Column of x, then one per line; null where there is no value. */
  data: (number | null)[][];
  lines: readonly Line[];
  /** What x is, with its unit: the title of the axis. */
  xTitle: string;
  yTitle: string;
  xFormat: (value: number) => string;
  /** x counts milliseconds: ticks at round times. */
  xTime?: boolean;
  /** x has whole numbers only. */
  xWhole?: boolean;
  /** The ticks of the y axis as texts. */
  yTicks?: (values: readonly number[]) => string[];
  /** Ends that the y axis does not pass. */
  yRange?: [number | undefined, number | undefined];
  /** Whether the y axis may be logarithmic. */
  yLog?: boolean;
  /** Whether the lines may be smoothed. */
  smooth?: boolean;
  /** The area between two columns, of a line's colour. */
  band?: Band;
  guides?: readonly Guide[];
  marks?: readonly Mark[];
  /** Charts of one name share their cursor and their zoom. */
  sync?: string;
  /** In pixels; a class `plot-<height>` of the style sheet reserves it. */
  height?: number;
  /** The chart in words, for screen readers. */
  description: string;
}

/** An area between two columns. */
export interface Band {
  low: number;
  high: number;
  /** Name of a CSS variable. */
  colour: string;
  label: string;
}

/** What the person chose for a chart. */
interface Chosen {
  /** A logarithmic y axis. */
  log: boolean;
  /** Smoothed lines, with the values pale behind them. */
  isSmooth: boolean;
}

/** What the chart reads while it draws: the newest properties and choices. */
type Latest = { current: LinePlotProps & Chosen };

/** How strongly a band is drawn. */
const BAND_ALPHA = 0.16;

/** Fewer points are not smoothed. */
const SMOOTH_POINTS_MIN = 8;

/** The tooltip names marks within this distance of the pointer, in pixels. */
const NEAR = 6;

/** Lines over one x axis with a legend, values at the pointer, zoom by dragging, and a logarithmic axis on request. */
export function LinePlot(props: LinePlotProps) {
  const frame = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [log, setLog] = useState(false);
  const [wantsSmooth, setSmooth] = useState(false);
  const canSmooth = props.smooth === true && (props.data[0]?.length ?? 0) >= SMOOTH_POINTS_MIN;
  const isSmooth = canSmooth && wantsSmooth;
  const [zoomed, setZoomed] = useState(false);
  const latest: Latest = useRef({ ...props, log, isSmooth });
  latest.current = { ...props, log, isSmooth };
  const theme = useThemeVersion();
  const id = useId();
  const height = props.height ?? 260;
  // uPlot takes new data, but no other lines, guides, height, scale or colours: these need a new chart.
  const labels = props.lines.map((line) => line.label);
  const kind = JSON.stringify([props.xTitle, labels, height, theme, log, isSmooth, props.guides ?? []]);

  useEffect(() => {
    const element = frame.current!;
    const hooks = { tip, onZoom: setZoomed };
    const chart = new uPlot(options(latest, element.clientWidth, height, hooks), aligned(latest.current), element);
    plot.current = chart;
    const untouch = followTouches(chart);
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== chart.width)
        chart.setSize({ width: element.clientWidth, height });
    });
    resized.observe(element);
    return () => {
      untouch();
      resized.disconnect();
      chart.destroy();
      plot.current = null;
      setZoomed(false);
    };
  }, [kind]);

  useEffect(() => {
    const chart = plot.current;
    if (!chart) return;
    const { min, max } = chart.scales.x!;
    const keep = isZoomed(chart) && min !== undefined && max !== undefined;
    chart.setData(aligned(latest.current), !keep);
    // What was zoomed to stays; the y axis follows the new values in it.
    if (keep) chart.setScale("x", { min, max });
  }, [props.data, props.marks]);

  const reset = () => plot.current?.setData(plot.current.data, true);
  return (
    <figure class="plot" aria-describedby={id}>
      <div class="plot-head">
        <h3>{props.title}</h3>
        <span class="plot-tools">
          {zoomed && (
            <button type="button" class="small" onClick={reset}>
              Reset zoom
            </button>
          )}
          {canSmooth && (
            <label class="check-line">
              <input
                type="checkbox"
                checked={wantsSmooth}
                onChange={(event) => setSmooth(event.currentTarget.checked)}
              />
              smooth
            </label>
          )}
          {props.yLog && (
            <label class="check-line">
              <input type="checkbox" checked={log} onChange={(event) => setLog(event.currentTarget.checked)} />
              log scale
            </label>
          )}
        </span>
      </div>
      <Key {...props} marks={props.marks ?? []} />
      <div ref={frame} class={`plot-frame plot-${height}`} role="img" aria-label={props.description}>
        <div ref={tip} class="plot-tip" hidden aria-hidden="true" />
      </div>
      <figcaption id={id} class="unseen">
        {props.description}
      </figcaption>
    </figure>
  );
}

/** The legend: each line, and what the marks are. */
function Key(
  props: Pick<LinePlotProps, "lines" | "data" | "band" | "xTitle" | "xFormat"> & { marks: readonly Mark[] },
) {
  const { lines, data, band, marks } = props;
  const best = (line: Line, index: number) => {
    const at = line.best && bestAt(data[index + 1] ?? [], line.best);
    if (at === undefined) return undefined;
    const place = `${props.xTitle.split(",")[0]!.toLowerCase()} ${props.xFormat(data[0]![at]!)}`;
    return `, best ${line.format(data[index + 1]![at]!)} at ${place}`;
  };
  return (
    <ul class="legend">
      {lines.map((line, index) =>
        line.hidden || isEmpty(data[index + 1]) ? null : (
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
            {best(line, index)}
          </li>
        ),
      )}
      {band && !isEmpty(data[band.low]) && (
        <li>
          <svg class="line-key" viewBox="0 0 18 10" width="18" height="10" aria-hidden="true">
            <rect width="18" height="10" fill={`var(${band.colour})`} opacity={BAND_ALPHA} />
          </svg>
          {band.label}
        </li>
      )}
      {marks.some((mark) => mark.kind === "abandoned") && (
        <li>
          <i class="swatch-line line-abandoned" aria-hidden="true" />
          abandoned round
        </li>
      )}
      {marks.some((mark) => mark.kind === "change") && (
        <li>
          <i class="swatch-line line-close" aria-hidden="true" />
          pause or change
        </li>
      )}
    </ul>
  );
}

/** On a logarithmic axis there is no place for zero and below. */
function aligned({ data, log, isSmooth }: Pick<LinePlotProps, "data"> & Chosen): uPlot.AlignedData {
  const [x = [], ...lines] = data;
  const shown = log ? lines.map((line) => line.map((value) => (value !== null && value > 0 ? value : null))) : lines;
  return [x, ...shown, ...(isSmooth ? shown.map(smoothed) : [])] as unknown as uPlot.AlignedData;
}

function options(
  latest: Latest,
  width: number,
  height: number,
  { tip, onZoom }: { tip: { current: HTMLDivElement | null }; onZoom: (zoomed: boolean) => void },
): uPlot.Options {
  const { lines, band, sync, guides = [], xTitle, yTitle, log, isSmooth } = latest.current;
  const colours = { muted: colour("--muted"), bad: colour("--vermilion") };
  const grid = { stroke: colour("--line"), width: 1 };
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const axis = {
    stroke: colours.muted,
    grid,
    ticks: { show: false },
    font,
    labelFont: font,
    labelSize: 16,
    labelGap: 2,
  };
  return {
    width,
    height,
    padding: [10, 26, 0, 0],
    legend: { show: false },
    cursor: {
      points: { size: 7 },
      drag: { x: true, y: false, setScale: true, dist: 4 },
      ...(sync ? { sync: { key: sync } } : {}),
    },
    scales: {
      x: { time: false, range: (_, low, high) => xRange(low, high) },
      y: { distr: log ? 3 : 1, range: (_, low, high) => yRange(low, high, latest.current) },
    },
    axes: [
      {
        ...axis,
        label: xTitle,
        size: 28,
        gap: 6,
        splits: (chart, _, low, high) => xSplits(low, high, chart.width, latest.current),
        values: (_, values) => values.map(latest.current.xFormat),
      },
      {
        ...axis,
        label: yTitle,
        size: 50,
        gap: 6,
        splits: (_, __, low, high) => ySplits(low, high, height, latest.current.log),
        values: (_, values) => yTexts(values, latest.current),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: line.hidden ? 0 : 1.75,
        spanGaps: true,
        points: {
          show: (chart: uPlot) => !line.hidden && chart.data[0].length <= 40,
          size: 5,
          fill: colour(line.colour),
        },
        ...(line.dashed ? { dash: [5, 4] } : {}),
        ...(isSmooth ? { alpha: 0.25 } : {}),
      })),
      ...(isSmooth ? lines : []).map((line) => ({
        label: `${line.label}, smoothed`,
        stroke: colour(line.colour),
        width: line.hidden ? 0 : 2,
        spanGaps: true,
        points: { show: false },
        ...(line.dashed ? { dash: [5, 4] } : {}),
      })),
    ],
    ...(band ? { bands: [{ series: [band.high, band.low], fill: translucent(colour(band.colour)) }] } : {}),
    hooks: {
      setCursor: [(chart) => tell(chart, latest.current, tip.current)],
      setScale: [(chart, key) => key === "x" && onZoom(isZoomed(chart))],
      draw: [
        (chart) => {
          for (const guide of guides) drawGuide(chart, guide, colours.muted, font);
          const { data } = latest.current;
          latest.current.lines.forEach((line, index) => {
            const at = line.best && bestAt(data[index + 1] ?? [], line.best);
            if (at !== undefined) drawBest(chart, data[0]![at]!, data[index + 1]![at]!, colour(line.colour));
          });
          for (const mark of latest.current.marks ?? [])
            drawMark(chart, mark, mark.kind === "abandoned" ? colours.bad : colours.muted);
        },
      ],
    },
  };
}

/** A colour as that of a band. */
function translucent(rgb: string): string {
  return rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${BAND_ALPHA})`);
}

/** Whether a column has no value. */
function isEmpty(values: readonly (number | null)[] | undefined): boolean {
  return values?.every((value) => value === null) ?? true;
}

/** Whether the x axis shows less than all of the data. */
function isZoomed(chart: uPlot): boolean {
  const x = chart.data[0];
  const { min, max } = chart.scales.x!;
  if (x.length < 2 || min === undefined || min === null || max === undefined || max === null) return false;
  const room = (x[x.length - 1]! - x[0]!) * 1e-6;
  return min > x[0]! + room || max < x[x.length - 1]! - room;
}

function xRange(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  return low === high ? [low - 1, high + 1] : [low, high];
}

function yRange(low: number | null, high: number | null, props: LinePlotProps & Chosen): [number, number] {
  const { yRange: ends, guides = [], log } = props;
  const all = [low, high, ...guides.map((guide) => guide.y)].filter((value) => value !== null && (!log || value > 0));
  if (all.length === 0) return [log ? 0.1 : (ends?.[0] ?? 0), ends?.[1] ?? 1];
  const [least, most] = [Math.min(...(all as number[])), Math.max(...(all as number[]))];
  if (log) return least === most ? [least / 2, most * 2] : [least / 1.1, most * 1.1];
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [Math.max(least - room, ends?.[0] ?? -Infinity), Math.min(most + room, ends?.[1] ?? Infinity)];
}

function ySplits(low: number, high: number, height: number, log: boolean): number[] {
  return log ? logTicks(low, high) : ticks(low, high, niceStep(high - low, height / 48));
}

function yTexts(values: readonly number[], { log, yTicks = axisReals }: LinePlotProps & Chosen): string[] {
  return log ? values.map(short) : yTicks(values);
}

function xSplits(low: number, high: number, width: number, { xTime, xWhole }: LinePlotProps): number[] {
  const wanted = Math.max(2, width / 90);
  const step = (xTime ? niceTimeStep : niceStep)(high - low, wanted);
  return ticks(low, high, xWhole ? Math.max(1, step) : step);
}

/** Writes the values under the cursor beside it. */
function tell(chart: uPlot, props: LinePlotProps, tip: HTMLElement | null): void {
  if (!tip) return;
  const { idx: index, left = -1, top = -1 } = chart.cursor;
  const x = index === null || index === undefined || left < 0 ? undefined : chart.data[0][index];
  if (index === null || index === undefined || x === undefined) {
    tip.hidden = true;
    return;
  }
  const texts = [`${props.xTitle.split(",")[0]} ${props.xFormat(x)}`];
  props.lines.forEach((line, at) => {
    const value = nearestValue(chart, at + 1, index);
    if (value !== undefined) texts.push(`${line.label}: ${line.format(value)}`);
  });
  for (const mark of props.marks ?? [])
    if (Math.abs(chart.valToPos(mark.x, "x") - left) <= NEAR) texts.push(mark.label);
  tip.replaceChildren(...texts.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
  tip.hidden = false;
  const plot = { left: chart.over.offsetLeft, top: chart.over.offsetTop };
  const beside = left + 16 + tip.offsetWidth > chart.over.clientWidth ? left - 16 - tip.offsetWidth : left + 16;
  const below = Math.min(Math.max(0, top + 12), Math.max(0, chart.over.clientHeight - tip.offsetHeight));
  const at = [Math.max(0, plot.left + beside), plot.top + below].map((value) => `${Math.round(value)}px`);
  tip.style.transform = `translate(${at.join(", ")})`;
}

/** The value of a line at a place; lines of other jobs have gaps there, and tell what they had last. */
function nearestValue(chart: uPlot, series: number, index: number): number | undefined {
  const values = chart.data[series]!;
  for (let at = index; at >= 0; at -= 1) {
    const value = values[at];
    if (value !== null && value !== undefined) return value;
  }
  return undefined;
}

/** Moves the cursor to a finger. uPlot follows the mouse only. */
function followTouches(chart: uPlot): () => void {
  const moved = (event: PointerEvent) => {
    if (event.pointerType !== "touch") return;
    const { left, top } = chart.over.getBoundingClientRect();
    chart.setCursor({ left: event.clientX - left, top: event.clientY - top });
  };
  chart.over.addEventListener("pointerdown", moved);
  chart.over.addEventListener("pointermove", moved);
  return () => {
    chart.over.removeEventListener("pointerdown", moved);
    chart.over.removeEventListener("pointermove", moved);
  };
}
