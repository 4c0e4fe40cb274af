// How long the clients of a round took.

import { useMemo, useState } from "preact/hooks";
import type { Assignment, Round } from "../api/types";
import { Histogram, type Marker } from "../charts/histogram";
import { lateMs, reportMs, trainMs, uploadMs } from "../lib/assignments";
import { duration, plural } from "../lib/format";
import { median, quantile } from "../lib/scale";
import { Empty, Panel, Segmented } from "../ui/parts";

type Part = "report" | "train" | "upload";

const PARTS = [
  { value: "report", label: "To the report", of: reportMs },
  { value: "train", label: "Training", of: trainMs },
  { value: "upload", label: "Upload", of: uploadMs },
] as const;

const TITLES: Record<Part, string> = { report: "From the draw to the report", train: "Training", upload: "Upload" };

/** A histogram of the clients' times. `triedMs` is the deadline that is tried on the last rounds, which it marks. */
export function Deadlines({
  round,
  assignments,
  triedMs,
}: {
  round: Round;
  assignments: readonly Assignment[];
  triedMs: number | undefined;
}) {
  const [part, setPart] = useState<Part>("report");
  const { of, label } = PARTS.find((entry) => entry.value === part)!;
  const values = useMemo(() => assignments.map(of).filter((ms) => ms !== undefined), [assignments, of]);
  const sorted = useMemo(() => values.toSorted((a, b) => a - b), [values]);
  // A relay would have brought what it had at another deadline.
  const tells = assignments.every((item) => item.places === undefined);
  const late = useMemo(() => missedMs(round, assignments), [round, assignments]);
  const deadlineMs = deadlineOf(round);
  const switcher = <Segmented label="Which time" value={part} onChange={setPart} options={PARTS} />;
  if (values.length === 0 && (part !== "report" || late.length === 0)) {
    return (
      <Panel title="How long clients took" actions={switcher}>
        {round.ended_at_ms === undefined ? (
          <Empty title="No report yet">Times appear with the first report.</Empty>
        ) : (
          <Empty title="No report counted" />
        )}
      </Panel>
    );
  }
  const [middle, mostly] = [duration(median(sorted)), duration(quantile(sorted, 0.9))];
  const text =
    values.length === 0
      ? `No report counted; ${plural(late.length, "client")} finished late.`
      : `${label}: ${plural(values.length, "client")}, median ${middle}, p90 ${mostly}.`;
  const slowest = Math.max(sorted.at(-1) ?? 0, part === "report" ? (late.at(-1) ?? 0) : 0);
  // Drawn where they do not squeeze the distribution.
  const fits = (ms: number | undefined) => ms !== undefined && ms < slowest * 3;
  const markers: Marker[] = [];
  if (part === "report" && tells && fits(triedMs))
    markers.push({ at: triedMs!, label: `tried: ${duration(triedMs)}`, tone: "other" });
  if (fits(deadlineMs)) markers.push({ at: deadlineMs!, label: `deadline ${duration(deadlineMs)}`, tone: "deadline" });
  return (
    <Panel title="How long clients took" actions={switcher} hint={text}>
      <Histogram
        values={part === "report" ? [...values, ...late] : values}
        markers={markers}
        noun="client"
        xTitle={`${TITLES[part]}, time`}
        description={`${text}${deadlineMs === undefined ? "" : ` The deadline was ${duration(deadlineMs)}.`}`}
      />
    </Panel>
  );
}

function deadlineOf(round: Round): number | undefined {
  const { deadline_at_ms: at, selected_at_ms: selected, opened_at_ms: opened } = round;
  return at === undefined ? undefined : at - (selected ?? opened);
}

/** The times of those who finished too late, in order; none where the round had all reports that it wanted. */
function missedMs(round: Round, assignments: readonly Assignment[]): number[] {
  if (round.ended_at_ms === undefined || round.reported >= round.goal) return [];
  return assignments
    .map(lateMs)
    .filter((ms) => ms !== undefined)
    .sort((a, b) => a - b);
}
