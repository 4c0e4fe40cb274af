// How long the clients of a round took, and the reports that another deadline would have dropped.

import { useId, useMemo, useState } from "preact/hooks";
import type { Assignment, Round, WhatIf } from "../api/types";
import { Histogram, type Marker } from "../charts/histogram";
import { droppedBy, reportMs, trainMs, uploadMs } from "../lib/assignments";
import { count, duration, percent, plural } from "../lib/format";
import { quantile } from "../lib/scale";
import { Empty, Panel, Segmented } from "../ui/parts";

type Part = "report" | "train" | "upload";

const PARTS = [
  { value: "report", label: "To the report", of: reportMs },
  { value: "train", label: "Training", of: trainMs },
  { value: "upload", label: "Upload", of: uploadMs },
] as const;

const TITLES: Record<Part, string> = { report: "From the draw to the report", train: "Training", upload: "Upload" };

/** A histogram of the clients' times, and a slider to try another deadline. `whatIf` has the coordinator's figures. */
export function Deadlines({
  round,
  assignments,
  whatIf,
}: {
  round: Round;
  assignments: readonly Assignment[];
  whatIf: readonly WhatIf[];
}) {
  const [part, setPart] = useState<Part>("report");
  const { of, label } = PARTS.find((entry) => entry.value === part)!;
  const values = useMemo(() => assignments.map(of).filter((ms) => ms !== undefined), [assignments, of]);
  const sorted = useMemo(() => values.toSorted((a, b) => a - b), [values]);
  const deadlineMs =
    round.deadline_at_ms === undefined
      ? undefined
      : round.deadline_at_ms - (round.selected_at_ms ?? round.opened_at_ms);
  const [tried, setTried] = useState<number>();
  const id = useId();
  const switcher = <Segmented label="Which time" value={part} onChange={setPart} options={PARTS} />;
  const [median, mostly] = [duration(quantile(sorted, 0.5)), duration(quantile(sorted, 0.9))];
  const text = `${label}: ${plural(values.length, "client")}, median ${median}, p90 ${mostly}.`;
  if (values.length === 0) {
    return (
      <Panel title="How long clients took" actions={switcher}>
        <Empty title="No report yet">Times appear with the first report.</Empty>
      </Panel>
    );
  }
  const slowest = sorted.at(-1)!;
  const most = Math.ceil(slowest * 1.15);
  const at = Math.min(tried ?? quantile(sorted, 0.8)!, most);
  const dropped = droppedBy(at, values, whatIf);
  const left = values.length - dropped;
  const markers: Marker[] = part === "report" ? [{ at, label: `tried: ${duration(at)}`, tone: "other" }] : [];
  // Drawn where it does not squeeze the distribution; the sentence below says it anyway.
  if (deadlineMs !== undefined && deadlineMs < slowest * 3)
    markers.push({ at: deadlineMs, label: `deadline ${duration(deadlineMs)}`, tone: "deadline" });
  return (
    <Panel title="How long clients took" actions={switcher} hint={text}>
      <Histogram
        values={values}
        markers={markers}
        noun="client"
        xTitle={`${TITLES[part]}, time`}
        description={`${text}${deadlineMs === undefined ? "" : ` The deadline was ${duration(deadlineMs)}.`}`}
      />
      {part === "report" && (
        <div class="what-if">
          <label for={id}>Try another deadline</label>
          <input
            id={id}
            type="range"
            min={0}
            max={most}
            step={Math.max(1, Math.round(most / 400))}
            value={at}
            aria-valuetext={duration(at)}
            onInput={(event) => setTried(Number(event.currentTarget.value))}
          />
          <output for={id} aria-live="polite">
            A deadline of <b>{duration(at)}</b> would have dropped <b>{count(dropped)}</b> of{" "}
            {plural(values.length, "report")} ({percent(dropped / values.length, 0)})
            {left < round.minimum ? (
              <>: the round would have been abandoned, its minimum is {count(round.minimum)}.</>
            ) : (
              "."
            )}
            {deadlineMs !== undefined && <span class="quiet"> The real one was {duration(deadlineMs)}.</span>}
          </output>
        </div>
      )}
    </Panel>
  );
}
