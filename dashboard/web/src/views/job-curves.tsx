// Learning curves against rounds, time, work or traffic; and the cost of reaching target accuracies.

import { useMemo } from "preact/hooks";
import type { Curve, CurveMark, CurvePoint, Job, Target } from "../api/types";
import { LinePlot } from "../charts/line-plot";
import type { Guide } from "../charts/marks";
import {
  AXES,
  type Axis,
  accuracyColumns,
  columns,
  describe,
  distinctTargets,
  marksOf,
  targetWallMs,
} from "../lib/curve";
import { endsSomething } from "../lib/events";
import { axisReals, bytes, compact, count, duration, percent, plural, real } from "../lib/format";
import { links, setQuery, useLocation } from "../router";
import { useResource } from "../ui/connection";
import { Empty, NotAvailable, Panel, Pending, Segmented } from "../ui/parts";
import { type Column, Table } from "../ui/table";

export const X_FORMATS: Record<Axis, (value: number) => string> = {
  round: (value) => count(Math.round(value)),
  wall: (value) => (value === 0 ? "0" : duration(value)),
  clients: (value) => (value === 0 ? "0" : hours(value)),
  bytes: (value) => (value === 0 ? "0" : bytes(value)),
};

/** Shares of an axis, all with the decimals that their step needs. */
export function percentTicks(values: readonly number[]): string[] {
  return axisReals(values.map((value) => Math.round(value * 1e6) / 1e4)).map((text) => `${text} %`);
}

/** Work of many clients added up: hours, or minutes and seconds while there is little. */
function hours(ms: number): string {
  const value = ms / 3_600_000;
  return value < 1 ? duration(ms) : `${value < 100 ? Number(value.toFixed(1)) : compact(value)} h`;
}

/** Beside the accuracy: the tenth of the clients, and the ends of the interval. */
const SPREAD = [
  { label: "A tenth of the clients at most", colour: "--muted", dashed: true, format: percent },
  { label: "Surely above", colour: "--accent", hidden: true, format: percent },
  { label: "Surely below", colour: "--accent", hidden: true, format: percent },
] as const;
/** The interval of 95 %, as columns. */
const BAND = { low: 3, high: 4, colour: "--accent", label: "95 % interval" } as const;

/** The x axis of curves, which the address names, and what switches it. */
export function useAxis() {
  const { query } = useLocation();
  const axis = (AXES.find((entry) => entry.axis === query.get("axis")) ?? AXES[0]!).axis;
  const choose = (value: Axis) => setQuery({ axis: value === "round" ? undefined : value });
  const switcher = (
    <Segmented
      label="Curves against"
      value={axis}
      onChange={choose}
      options={AXES.map((entry) => ({ value: entry.axis, label: entry.label, title: entry.hint }))}
    />
  );
  return { axis, switcher };
}

/** The curves of a job with a choice of the x axis. */
export function JobCurves({ job }: { job: Job }) {
  const curve = useResource<Curve>(`jobs/${job.id}/curve`, { points: 400 }, { live: endsSomething(job.id) });
  const { axis, switcher } = useAxis();
  const { data } = curve;
  const hint =
    data && data.rounds > data.points.length && data.points.some(({ abandoned }) => !abandoned)
      ? `${count(data.points.length)} of ${plural(data.rounds, "round")} drawn`
      : undefined;
  return (
    <Panel title="Learning curves" actions={switcher} hint={hint} class="curves-panel">
      {data ? (
        <Plots points={data.points} axis={axis} job={job} targets={data.targets} changes={data.marks ?? []} />
      ) : (
        <Pending resource={curve} lines={8} missing={<NotAvailable what="The learning curve" />} />
      )}
    </Panel>
  );
}

/** Accuracy and loss against the axis, and the targets. */
function Plots({
  points,
  axis,
  job,
  targets,
  changes,
}: {
  points: readonly CurvePoint[];
  axis: Axis;
  job: Job;
  targets: readonly Target[];
  changes: readonly CurveMark[];
}) {
  const accuracy = useMemo(() => accuracyColumns(points, axis), [points, axis]);
  const loss = useMemo(() => columns(points, axis, ["loss", "training_loss"]), [points, axis]);
  // The coordinator's choice, as in the head and the list of versions. The curve may be drawn without this round.
  const best = columns(points, "round", ["accuracy"])[0]!.indexOf(job.progress?.best?.round ?? 0);
  const marks = useMemo(() => marksOf(points, changes, axis), [points, changes, axis]);
  if (accuracy[0]!.length === 0 && loss[0]!.length === 0)
    return job.rounds_committed > 0 ? (
      <Empty title="Nothing was measured">
        A private job keeps no loss of its clients. An evaluation on the coordinator would be drawn here.
      </Empty>
    ) : (
      <Empty title="No round was committed yet">The curves begin with the first committed round.</Empty>
    );
  const shared = {
    xTitle: AXES.find((entry) => entry.axis === axis)!.title,
    marks,
    xFormat: X_FORMATS[axis],
    xTime: axis === "wall" || axis === "clients",
    xWhole: axis === "round",
    sync: `job-${job.id}`,
    smooth: true,
  };
  const stop = job.file.stop?.accuracy;
  const guides: Guide[] = stop === undefined ? [] : [{ y: stop, label: `stops at ${percent(stop, 0)}` }];
  return (
    <>
      <div class="plots">
        <div>
          {accuracy[0]!.length > 0 ? (
            <LinePlot
              {...shared}
              title="Accuracy"
              yTitle="Accuracy, %"
              data={accuracy}
              guides={guides}
              yRange={[0, 1]}
              yTicks={(values) => percentTicks(values)}
              lines={[
                {
                  label: "Accuracy",
                  colour: "--accent",
                  best: best < 0 ? "highest" : best,
                  format: (value) => percent(value, 2),
                },
                ...SPREAD,
              ]}
              band={BAND}
              description={describe(points, "accuracy", "Accuracy", percent)}
            />
          ) : (
            <Empty title="Accuracy is not measured">
              {job.file.evaluation ? (
                <NotEvaluated ended={job.ended_at_ms !== undefined} />
              ) : (
                <>
                  A job measures accuracy when its file has an <code>[evaluation]</code>.
                </>
              )}
            </Empty>
          )}
        </div>
        <div>
          <LinePlot
            {...shared}
            title="Loss"
            yTitle="Loss"
            yLog
            data={loss}
            yRange={[0, undefined]}
            lines={[
              { label: "Evaluation", colour: "--blue", best: "lowest", format: real },
              { label: "Training", colour: "--muted", dashed: true, format: real },
            ]}
            description={[
              describe(points, "loss", "Loss", real),
              describe(points, "training_loss", "Training loss", real),
            ].join(" ")}
          />
        </div>
      </div>
      {targets.length > 0 && <Targets targets={targets} job={job} />}
    </>
  );
}

/** Why a job with an evaluation has no accuracy. */
function NotEvaluated({ ended }: { ended: boolean }) {
  return ended ? (
    <>The job ended before an evaluation had a result.</>
  ) : (
    <>No evaluation has ended yet: the line at the top says what it waits for.</>
  );
}

/** Round, time, work and bytes at which each target accuracy was first reached. */
function Targets({ targets, job }: { targets: readonly Target[]; job: Job }) {
  const rows: readonly Column<Target>[] = [
    {
      head: "Accuracy",
      name: true,
      cell: (target) => percent(target.accuracy, (target.accuracy * 100) % 1 === 0 ? 0 : 1),
    },
    {
      head: "Round",
      number: true,
      cell: (target) => <a href={links.round(job.id, target.round)}>{count(target.round)}</a>,
    },
    { head: "Wall time", number: true, cell: (target) => duration(targetWallMs(target, job.created_at_ms)) },
    { head: "Client work", number: true, wide: true, cell: (target) => hours(target.clients_ms) },
    { head: "Bytes up", number: true, cell: (target) => bytes(target.bytes_up) },
  ];
  return (
    <div class="targets">
      <h3>Time to target</h3>
      <Table
        label="What it took to reach each accuracy for the first time"
        columns={rows}
        rows={distinctTargets(targets, job.file.stop?.accuracy)}
        rowKey={(target) => target.accuracy}
      />
    </div>
  );
}
