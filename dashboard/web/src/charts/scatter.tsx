// Each update's size against its direction: an outlier lies apart from the cloud.

import type { Assignment } from "../api/types";
import { axisReals, real } from "../lib/format";
import { extent, linear, niceStep, ticks } from "../lib/scale";
import { useWidth } from "./measure";

const HEIGHT = 240;
const PAD = { left: 60, right: 12, top: 12, bottom: 40 };

/** L2 norm against cosine to the round's mean, one dot per update that has both. */
export function NormScatter({ assignments, description }: { assignments: readonly Assignment[]; description: string }) {
  const [frame, width] = useWidth<HTMLDivElement>();
  const dots = assignments.filter((entry) => entry.update_norm !== undefined && entry.cosine !== undefined);
  const [, most] = extent(dots.map((dot) => dot.update_norm));
  const [least, best] = extent(dots.map((dot) => dot.cosine));
  const room = Math.max(0.02, (best - least) * 0.1);
  const yDomain: [number, number] = [Math.max(-1, least - room), Math.min(1, best + room)];
  const x = linear([0, most * 1.05], [PAD.left, Math.max(PAD.left + 1, width - PAD.right)]);
  const y = linear(yDomain, [HEIGHT - PAD.bottom, PAD.top]);
  const xTicks = ticks(0, most * 1.05, niceStep(most, Math.max(2, width / 110)));
  const xTexts = axisReals(xTicks);
  return (
    <div ref={frame} class="svg-frame h-240">
      {width > 0 && (
        <svg width={width} height={HEIGHT} role="img" aria-label={description}>
          {ticks(yDomain[0], yDomain[1], niceStep(yDomain[1] - yDomain[0], 4)).map((tick) => (
            <g key={tick} class="tick">
              <path d={`M${PAD.left} ${y(tick)}H${width - PAD.right}`} />
              <text x={PAD.left - 8} y={y(tick) + 4} text-anchor="end">
                {tick.toFixed(2)}
              </text>
            </g>
          ))}
          {xTicks.map((tick, index) => (
            <text key={tick} class="tick-text" x={x(tick)} y={HEIGHT - PAD.bottom + 16} text-anchor="middle">
              {xTexts[index]}
            </text>
          ))}
          <path class="axis" d={`M${PAD.left} ${HEIGHT - PAD.bottom + 0.5}H${width - PAD.right}`} />
          <text class="tick-text" x={(PAD.left + width) / 2} y={HEIGHT - 5} text-anchor="middle">
            L2 norm of the update
          </text>
          <text
            class="tick-text"
            transform={`translate(10 ${(HEIGHT - PAD.bottom) / 2}) rotate(-90)`}
            text-anchor="middle"
          >
            cosine to the mean
          </text>
          {dots.map((dot) => (
            <circle
              key={dot.id}
              class={`dot fill-${dot.state}`}
              cx={x(dot.update_norm!)}
              cy={y(dot.cosine!)}
              r="5"
              data-tip={`Client ${dot.client_number}: norm ${real(dot.update_norm)}, cosine ${real(dot.cosine)}`}
            />
          ))}
        </svg>
      )}
    </div>
  );
}
