// What a job measures beside loss and accuracy: named scalars over its rounds, and classes of the newest evaluation.

import { useMemo } from "preact/hooks";
import type { ClassCounts, ClassTotals, Job, MetricCurve, Page, Round, RoundDetail } from "../api/types";
import { LinePlot } from "../charts/line-plot";
import { endsSomething } from "../lib/events";
import { axisReals, count, ofWhom, percent, plural } from "../lib/format";
import { className, classRows, describeMetric, heat, metricColumns, metricFormat, metricTitle } from "../lib/metrics";
import { useResource } from "../ui/connection";
import { Panel } from "../ui/parts";
import { type Column, Table } from "../ui/table";

/** Metrics and classes of a job; nothing where its clients report neither. */
export function JobMetrics({ job }: { job: Job }) {
  const live = endsSomething(job.id);
  const curves = useResource<MetricCurve[]>(`jobs/${job.id}/metric-curves`, { points: 200 }, { live });
  const newest = useResource<Page<Round>>(
    `jobs/${job.id}/rounds`,
    { task: "evaluate", order: "desc", limit: 1, phase: "committed" },
    { live },
  );
  const evaluation = newest.data?.items[0];
  return (
    <>
      {curves.data && curves.data.length > 0 && <Curves curves={curves.data} job={job} />}
      {evaluation?.classes && <Classes job={job} evaluation={evaluation} totals={evaluation.classes} />}
    </>
  );
}

function Curves({ curves, job }: { curves: readonly MetricCurve[]; job: Job }) {
  const hint = "mean weighted by examples; a tenth of the clients lie below p10, a tenth above p90";
  return (
    <Panel title="Metrics" hint={hint} class="metrics-panel">
      <div class="plots">
        {curves.map((curve) => (
          <Curve key={`${curve.task}/${curve.name}`} curve={curve} job={job} />
        ))}
      </div>
    </Panel>
  );
}

function Curve({ curve, job }: { curve: MetricCurve; job: Job }) {
  const data = useMemo(() => metricColumns(curve), [curve]);
  const stop = job.file.stop;
  const [title, format] = [metricTitle(curve.name), metricFormat(curve.name)];
  const bound = stop?.metric === curve.name && curve.task === "evaluate" ? (stop.at_least ?? stop.at_most) : undefined;
  return (
    <div>
      <LinePlot
        title={`${title}, ${curve.task === "train" ? "training" : "evaluation"}`}
        yTitle={title}
        data={data}
        lines={[
          { label: "Mean", colour: "--accent", format },
          { label: "p10", colour: "--muted", dashed: true, format },
          { label: "p90", colour: "--muted", dashed: true, format },
        ]}
        guides={bound === undefined ? [] : [{ y: bound, label: `stops at ${format(bound)}` }]}
        xTitle="Rounds"
        xFormat={(value) => count(Math.round(value))}
        xWhole
        yTicks={axisReals}
        sync={`job-${job.id}`}
        description={describeMetric(curve)}
      />
    </div>
  );
}

type ConfusionCounts = Extract<ClassCounts, { kind: "confusion" }>;

const COLUMNS: Column<ReturnType<typeof classRows>[number]>[] = [
  { head: "Class", cell: (row) => row.name, name: true },
  { head: "Examples", cell: (row) => count(row.examples), number: true },
  { head: "Right", cell: (row) => count(row.right), number: true },
  { head: "Accuracy", cell: (row) => percent(row.accuracy), number: true },
];

/** The accuracy of each class, and the confusion matrix where there is one. */
function Classes({ job, evaluation, totals }: { job: Job; evaluation: Round; totals: ClassTotals }) {
  const { number: round, measured_on: on } = evaluation;
  const detail = useResource<RoundDetail>(`jobs/${job.id}/rounds/${round}`, { task: "evaluate" });
  const names = job.file.model.inputs?.target?.classes;
  const rows = classRows(totals, names);
  const counts = detail.data?.classes;
  return (
    <Panel
      title="Classes"
      hint={[plural(rows.length, "class", "classes"), `evaluation of round ${count(round)}`, ofWhom(on)]
        .filter(Boolean)
        .join(", ")}
    >
      <div class="plots">
        <div>
          <h3>Accuracy by class</h3>
          <Table label="Accuracy by class" columns={COLUMNS} rows={rows} rowKey={(row) => row.name} />
        </div>
        {counts?.kind === "confusion" && (
          <div>
            <h3>Confusion</h3>
            <Confusion counts={counts} names={names} />
          </div>
        )}
      </div>
    </Panel>
  );
}

/** A cell of the matrix. */
function Count(props: { counts: ConfusionCounts; truth: number; predicted: number }) {
  const { counts, truth, predicted } = props;
  const value = counts.counts[truth * counts.classes + predicted];
  return <td class={`number ${value ? `heat-${heat(counts, truth, predicted)}` : "zero"}`}>{count(value)}</td>;
}

/** A table whose cells are the darker the more examples of their row they have. */
function Confusion({ counts, names }: { counts: ConfusionCounts; names: readonly string[] | undefined }) {
  const classes = Array.from({ length: counts.classes }, (_, index) => index);
  return (
    <section class="table-frame" aria-label="Confusion matrix" tabIndex={0}>
      <table class="confusion">
        <caption class="unseen">
          Confusion matrix: a row for each true class, a column for each class with the highest score.
        </caption>
        <thead>
          <tr>
            <th scope="col">true \ predicted</th>
            {classes.map((predicted) => (
              <th key={predicted} scope="col" class="number">
                {className(names, predicted)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {classes.map((truth) => (
            <tr key={truth}>
              <th scope="row" class="number">
                {className(names, truth)}
              </th>
              {classes.map((predicted) => (
                <Count key={predicted} counts={counts} truth={truth} predicted={predicted} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
