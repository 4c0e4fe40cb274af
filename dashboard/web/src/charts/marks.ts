// Lines across a chart that are no data: values that matter, abandoned rounds, changes.

import uPlot from "uplot";

/** A horizontal line at a value that matters, with its name. */
export interface Guide {
  y: number;
  label: string;
}

/** A place on the x axis where something happened. */
export interface Mark {
  x: number;
  /** Told when the pointer is near. */
  label: string;
  kind: "abandoned" | "change";
}

export function drawGuide(chart: uPlot, guide: Guide, stroke: string, font: string): void {
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

/** A ring around the best value of a line. */
export function drawBest(chart: uPlot, x: number, y: number, stroke: string): void {
  const { ctx, bbox } = chart;
  const [left, top] = [chart.valToPos(x, "x", true), chart.valToPos(y, "y", true)];
  if (left < bbox.left - 1 || left > bbox.left + bbox.width + 1) return;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 2 * ratio;
  ctx.beginPath();
  ctx.arc(left, top, 5.5 * ratio, 0, 2 * Math.PI);
  ctx.stroke();
  ctx.restore();
}

/** An abandoned round is a tick on the axis; a change is a dashed line through the chart. */
export function drawMark(chart: uPlot, mark: Mark, stroke: string): void {
  const { ctx, bbox } = chart;
  const x = chart.valToPos(mark.x, "x", true);
  if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) return;
  const ratio = uPlot.pxRatio;
  const isTick = mark.kind === "abandoned";
  ctx.save();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = (isTick ? 2 : 1) * ratio;
  if (!isTick) ctx.setLineDash([4 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(x, isTick ? bbox.top + bbox.height - 9 * ratio : bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}
