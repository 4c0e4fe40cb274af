// An accuracy with what it was measured on.

import type { MeasuredOn } from "../api/types";
import { briefly, percent, spreadOf, sureness } from "../lib/format";

/** Two lines: the accuracy; its examples and its 95 % interval, with the spread over clients on hover. */
export function Measured({ accuracy, on }: { accuracy: number | undefined; on: MeasuredOn | undefined }) {
  return (
    <span class="two-lines">
      <span>{percent(accuracy, 2)}</span>
      {accuracy !== undefined && on && (
        <small class="quiet" data-tip={[sureness(on), spreadOf(on)].filter(Boolean).join("; ")}>
          {briefly(on)}
        </small>
      )}
    </span>
  );
}
