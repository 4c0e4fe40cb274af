// The buffer of a buffered job: clients in flight, how full it is, how stale its updates are, the weight that costs.

import type { RoundDetail } from "../api/types";
import { count, percent, plural, real } from "../lib/format";
import { Panel, Stat, Stats } from "../ui/parts";

/** The buffer of a round; nothing for a round with a cohort. */
export function BufferPanel({ data }: { data: RoundDetail }) {
  const { round, staleness = [] } = data;
  const { buffer } = round;
  if (!buffer) return null;
  const most = Math.max(1, ...staleness.map(({ updates }) => updates));
  return (
    <Panel title="Buffer" hint="clients are drawn one by one; a full buffer makes a version">
      <Stats>
        <Stat label="In the buffer" value={count(round.reported)} detail={`of ${count(round.goal)}`} />
        <Stat label="At work" value={count(round.assigned)} detail={`at most ${count(buffer.concurrency)}`} />
        <Stat
          label="Staleness"
          value={real(buffer.staleness_mean)}
          detail={`versions, at most ${count(buffer.staleness_max)}`}
        />
        <Stat
          label="Weight lost"
          value={round.weight > 0 ? percent(buffer.lost_weight / round.weight) : "–"}
          detail="to staleness"
        />
      </Stats>
      {staleness.length > 0 && (
        <table class="table staleness">
          <caption class="quiet">Updates of this round and the 19 before it, by the versions they were behind</caption>
          <tbody>
            {staleness.map(({ staleness: behind, updates }) => (
              <tr key={behind}>
                <th scope="row">{plural(behind, "version")}</th>
                <td class="staleness-bar">
                  <svg viewBox="0 0 100 6" height="6" width="100%" preserveAspectRatio="none" aria-hidden="true">
                    <rect class="fill-reported" width={(updates / most) * 100} height="6" />
                  </svg>
                </td>
                <td>{plural(updates, "update")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
