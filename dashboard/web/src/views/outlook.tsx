// What other deadlines would have done to the last rounds of a job.

import { useEffect, useId, useState } from "preact/hooks";
import type { Job, Outlook, OutlookPoint, RoundPolicy } from "../api/types";
import { endsSomething } from "../lib/events";
import { count, duration, plural } from "../lib/format";
import { useMay, useResource } from "../ui/connection";
import { NotAvailable, Panel, Pending } from "../ui/parts";
import { PolicyDialog } from "./policy";

/**
 * A slider over the deadlines that the coordinator played the last rounds with, and buttons that take one over.
 * `onTried` hears which deadline the slider is at.
 */
export function OutlookPanel(props: { job: Job; changed: () => void; onTried?: (deadlineMs: number) => void }) {
  const { job, changed, onTried } = props;
  const outlook = useResource<Outlook>(`jobs/${job.id}/outlook`, {}, { live: endsSomething(job.id) });
  const may = useMay("operator");
  const [suggested, suggest] = useState<Partial<RoundPolicy>>();
  const canChange = may && (job.state === "running" || job.state === "paused");
  const { data } = outlook;
  if (outlook.error?.missing || (data && data.points.length === 0)) return null;
  return (
    <Panel
      title="What if the deadline were another"
      hint={data && `the last ${plural(data.rounds, "round")} played again, with shorter and longer deadlines`}
    >
      {data ? (
        <Slider outlook={data} onTried={onTried} onUse={canChange ? suggest : undefined} />
      ) : (
        <Pending resource={outlook} lines={3} missing={<NotAvailable what="The comparison of deadlines" />} />
      )}
      {suggested && (
        <PolicyDialog job={job} suggested={suggested} onClose={() => suggest(undefined)} onSaved={changed} />
      )}
    </Panel>
  );
}

function Slider(props: {
  outlook: Outlook;
  onTried: ((deadlineMs: number) => void) | undefined;
  onUse: ((policy: Partial<RoundPolicy>) => void) | undefined;
}) {
  const { outlook, onTried, onUse } = props;
  const id = useId();
  const { points } = outlook;
  const indexOf = (deadlineMs: number) => points.findIndex((point) => point.deadline_ms >= deadlineMs);
  const [tried, setTried] = useState<number>();
  const first = indexOf(outlook.suggested_ms ?? outlook.deadline_ms);
  const at = Math.min(tried ?? Math.max(0, first), points.length - 1);
  const point = points[at]!;
  const present = points.find((other) => other.deadline_ms === outlook.deadline_ms);
  const goal = point.reports_min;
  useEffect(() => onTried?.(point.deadline_ms), [point.deadline_ms]);
  return (
    <div class="what-if">
      <label for={id}>Try another deadline</label>
      <input
        id={id}
        type="range"
        min={0}
        max={points.length - 1}
        step={1}
        value={at}
        aria-valuetext={duration(point.deadline_ms)}
        onInput={(event) => setTried(Number(event.currentTarget.value))}
      />
      <output for={id} aria-live="polite">
        <Outcome outlook={outlook} point={point} present={present} />
      </output>
      {onUse && (
        <span class="actions">
          <button
            type="button"
            class="small"
            disabled={point.deadline_ms === outlook.deadline_ms}
            onClick={() => onUse({ deadline_ms: point.deadline_ms })}
          >
            Use this deadline
          </button>
          {goal >= Math.max(1, outlook.minimum) && goal < outlook.goal && (
            <button
              type="button"
              class="small"
              data-tip={`each of these rounds would have reached ${goal} reports by then`}
              onClick={() => onUse({ deadline_ms: point.deadline_ms, updates_goal: goal })}
            >
              Use it with a goal of {count(goal)}
            </button>
          )}
        </span>
      )}
    </div>
  );
}

/** What a deadline would have done, in sentences. */
function Outcome(props: { outlook: Outlook; point: OutlookPoint; present: OutlookPoint | undefined }) {
  const { outlook, point, present } = props;
  const rounds = plural(outlook.rounds, "round");
  const reports = (value: number) => Number(value.toFixed(1)).toLocaleString("en");
  return (
    <>
      With <b>{duration(point.deadline_ms)}</b>
      {point === present ? ", as now, " : " "}
      the last {rounds} would have had <b>{reports(point.reports)}</b> reports each and taken{" "}
      <b>{duration(point.lasts_ms)}</b>; <b>{count(point.abandoned)}</b> would have been abandoned.
      {present && point !== present && (
        <span class="quiet">
          {" "}
          With {duration(present.deadline_ms)}, as now: {reports(present.reports)} reports, {duration(present.lasts_ms)}
          , {count(present.abandoned)} abandoned.
        </span>
      )}
      {outlook.censored > 0 && (
        <span class="quiet">
          {" "}
          {plural(outlook.censored, "client")} had not come when the round closed; they count by the chance that the
          times of the others give them. The longest known time is {duration(outlook.longest_ms)}.
        </span>
      )}
    </>
  );
}
