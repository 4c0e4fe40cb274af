// The updates of a round as vectors: their norms, and how far they agree.

import type { Assignment, Round } from "../api/types";
import { Histogram } from "../charts/histogram";
import { NormScatter } from "../charts/scatter";
import { plural, real } from "../lib/format";
import { median } from "../lib/scale";
import { NotAvailable, Panel, Stat, Stats } from "../ui/parts";

/** Norms and cosines of the updates, as a scatter plot or a histogram, and the round's figures. */
export function Updates({ round, assignments }: { round: Round; assignments: readonly Assignment[] }) {
  const sorted = (of: (item: Assignment) => number | undefined) =>
    assignments
      .map(of)
      .filter((value) => value !== undefined)
      .sort((a, b) => a - b);
  const norms = sorted((item) => item.update_norm);
  const cosines = sorted((item) => item.cosine);
  if (norms.length === 0 && round.diversity === undefined) {
    return round.ended_at_ms === undefined || round.reported === 0 ? null : (
      <Panel title="Updates">
        <NotAvailable what="The size of the updates" />
      </Panel>
    );
  }
  const against = cosines.filter((value) => value < 0).length;
  const sizes = `median norm ${real(median(norms))}, largest ${real(norms.at(-1))}`;
  const agreement = cosines.length > 0 ? `; median cosine to the mean ${real(median(cosines))}` : "";
  const text = `${plural(norms.length, "update")}: ${sizes}${agreement}.`;
  return (
    <Panel
      title="Updates"
      hint={
        cosines.length > 0
          ? "each client's update: its size, and its cosine to the mean of the round"
          : "the L2 norm of each client's update"
      }
    >
      <div class="updates">
        {cosines.length > 0 ? (
          <NormScatter assignments={assignments} description={text} />
        ) : (
          <Histogram values={norms} unit="number" noun="update" xTitle="L2 norm of the update" description={text} />
        )}
        <Stats class="column">
          <Stat label="Norm, median" value={real(median(norms))} detail={`largest ${real(norms.at(-1))}`} />
          {round.norm_max !== undefined && (
            <Stat label="Norm bound" value={real(round.norm_max)} detail="larger updates are refused" />
          )}
          {round.clip_norm !== undefined && (
            <Stat label="Clipping norm" value={real(round.clip_norm)} detail="larger updates are scaled down to it" />
          )}
          {round.mu !== undefined && (
            <Stat label="Proximal weight" value={real(round.mu)} detail="mu of FedProx in this round" />
          )}
          <Stat
            label="Cosine, median"
            value={real(median(cosines))}
            detail={
              cosines.length === 0
                ? undefined
                : against > 0
                  ? `${plural(against, "update")} point away from the mean`
                  : "every update is on the side of the mean"
            }
          />
          <Stat
            label="Diversity"
            value={real(round.diversity)}
            detail={diversityWords(round.diversity, norms.length)}
            title="sum of squared norms over the squared norm of the sum"
          />
          <Stat label="Step norm" value={real(round.step_norm)} detail="what the round changed" />
        </Stats>
      </div>
    </Panel>
  );
}

/** Between 1/n, when all n updates are the same, and 1 or more, when they have nothing in common. */
function diversityWords(diversity: number | undefined, updates: number): string | undefined {
  if (diversity === undefined || updates === 0) return undefined;
  const alike = 1 / updates;
  if (diversity > 1) return "updates cancel each other";
  if (diversity < 2 * alike) return "clients agree";
  return `same updates would have ${real(alike)}`;
}
