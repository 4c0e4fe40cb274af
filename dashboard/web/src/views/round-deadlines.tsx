// How long the clients of a round took, and the reports that another deadline would have dropped.

import type { ComponentChildren } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import type { Assignment, Round, WhatIf } from "../api/types";
import { Histogram, type Marker } from "../charts/histogram";
import { droppedBy, lateMs, reportMs, trainMs, uploadMs } from "../lib/assignments";
import { count, duration, percent, plural } from "../lib/format";
import { median, quantile } from "../lib/scale";
import { Empty, Panel, Segmented } from "../ui/parts";

type Part = "report" | "train" | "upload";

const PARTS = [
  { value: "report", label: "To the report", of: reportMs },
  { value: "train", label: "Training", of: trainMs },
  { value: "upload", label: "Upload", of: uploadMs },
] as const;

const TITLES: Record<Part, string> = { report: "From the draw to the report", train: "Training", upload: "Upload" };

/**
 * A histogram of the clients' times, and a slider to try another deadline. `whatIf` has the coordinator's figures;
 * `onUse` takes a deadline over into the round policy, where the operator may change it.
 */
export function Deadlines({
  round,
  assignments,
  whatIf,
  onUse,
}: {
  round: Round;
  assignments: readonly Assignment[];
  whatIf: readonly WhatIf[];
  onUse: ((deadlineMs: number) => void) | undefined;
}) {
  const [part, setPart] = useState<Part>("report");
  const { of, label } = PARTS.find((entry) => entry.value === part)!;
  const values = useMemo(() => assignments.map(of).filter((ms) => ms !== undefined), [assignments, of]);
  const sorted = useMemo(() => values.toSorted((a, b) => a - b), [values]);
  // A relay would have brought what it had at another deadline.
  const tells = assignments.every((item) => item.places === undefined);
  const late = useMemo(() => missedMs(round, assignments), [round, assignments]);
  const [tried, setTried] = useState<number>();
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
  const most = Math.ceil(slowest * 1.15);
  // Where reports were missing, the first question is how much longer; else which deadline would have been enough.
  const first = late.length > 0 ? late.at(-1)! : quantile(sorted, 0.8)!;
  const at = Math.min(tried ?? first, most);
  const markers: Marker[] = part === "report" && tells ? [{ at, label: `tried: ${duration(at)}`, tone: "other" }] : [];
  // Drawn where it does not squeeze the distribution; the sentence below says it anyway.
  if (deadlineMs !== undefined && deadlineMs < slowest * 3)
    markers.push({ at: deadlineMs, label: `deadline ${duration(deadlineMs)}`, tone: "deadline" });
  return (
    <Panel title="How long clients took" actions={switcher} hint={text}>
      <Histogram
        values={part === "report" ? [...values, ...late] : values}
        markers={markers}
        noun="client"
        xTitle={`${TITLES[part]}, time`}
        description={`${text}${deadlineMs === undefined ? "" : ` The deadline was ${duration(deadlineMs)}.`}`}
      />
      {part === "report" && tells && (
        <WhatIfSlider at={at} most={most} onTry={setTried} onUse={onUse}>
          <Outcome round={round} at={at} values={values} late={late} whatIf={whatIf} />
        </WhatIfSlider>
      )}
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

function WhatIfSlider(props: {
  at: number;
  most: number;
  onTry: (deadlineMs: number) => void;
  onUse: ((deadlineMs: number) => void) | undefined;
  /** What the deadline would have changed. */
  children: ComponentChildren;
}) {
  const { at, most, onTry, onUse } = props;
  const id = useId();
  return (
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
        onInput={(event) => onTry(Number(event.currentTarget.value))}
      />
      <output for={id} aria-live="polite">
        {props.children}
      </output>
      {onUse && (
        <button type="button" class="small" onClick={() => onUse(Math.ceil(at))}>
          Use this deadline
        </button>
      )}
    </div>
  );
}

/** What another deadline would have changed in the round, in a sentence. */
function Outcome(props: {
  round: Round;
  at: number;
  values: readonly number[];
  late: readonly number[];
  whatIf: readonly WhatIf[];
}) {
  const { round, at, values, late, whatIf } = props;
  const real = deadlineOf(round);
  const dropped = droppedBy(at, values, whatIf);
  const gained = late.filter((ms) => ms <= at).length;
  const left = values.length - dropped + gained;
  return (
    <>
      A deadline of <b>{duration(at)}</b> would have{" "}
      {gained > 0 && dropped === 0 ? (
        <>
          counted <b>{count(gained)}</b> more: {plural(left, "report")}
        </>
      ) : (
        <>
          dropped <b>{count(dropped)}</b> of {plural(values.length, "report")} (
          {percent(dropped / Math.max(1, values.length), 0)})
        </>
      )}
      {left < round.minimum ? (
        <>; the round would have been abandoned, its minimum is {count(round.minimum)}.</>
      ) : round.reason === "too_few_reports" ? (
        <>, enough for the minimum of {count(round.minimum)}.</>
      ) : (
        "."
      )}
      {real !== undefined && <span class="quiet"> The real one was {duration(real)}.</span>}
    </>
  );
}
