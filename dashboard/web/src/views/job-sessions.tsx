// How far the sessions of a job's clients came: a funnel, and the count of each shape.

import type { Job, Page, Round, ShapeCount } from "../api/types";
import { endsSomething } from "../lib/events";
import { count, percent, plural } from "../lib/format";
import { funnel, merged, shapeEnd, shapeWords } from "../lib/shapes";
import { useResource } from "../ui/connection";
import { Glyph } from "../ui/glyph";
import { useNarrow } from "../ui/narrow";
import { Empty, Hint, NotAvailable, Panel, Pending, Share } from "../ui/parts";
import { type Column, Table } from "../ui/table";

const ROUNDS = 100;

/** The sessions of a job's latest rounds. */
export function JobSessions({ job }: { job: Job }) {
  const shapes = useResource<ShapeCount[]>(
    `jobs/${job.id}/shapes`,
    { rounds: ROUNDS },
    { live: endsSomething(job.id) },
  );
  const rounds = useResource<Page<Round>>(
    `jobs/${job.id}/rounds`,
    { order: "desc", limit: ROUNDS },
    { live: endsSomething(job.id) },
  );
  const spare = (rounds.data?.items ?? []).reduce((sum, round) => sum + (round.spare ?? 0), 0);
  const { data } = shapes;
  if (!data)
    return (
      <Panel title="Sessions">
        <Pending resource={shapes} lines={10} missing={<NotAvailable what="The history of sessions" />} />
      </Panel>
    );
  const list = merged(data);
  const hint = `${plural(
    list.reduce((sum, entry) => sum + entry.count, 0),
    "session",
  )} of the last ${Math.min(ROUNDS, Math.max(1, job.rounds_opened))} rounds`;
  if (list.length === 0)
    return (
      <Panel title="Sessions">
        <Empty title="No session yet">Sessions appear when the first cohort is selected.</Empty>
      </Panel>
    );
  return (
    <>
      <Panel title="Funnel" hint={hint}>
        <Funnel shapes={list} spare={spare} />
      </Panel>
      <Panel title="Shapes of sessions" hint="one letter per event, in order">
        <Shapes shapes={list} />
      </Panel>
    </>
  );
}

/** Sessions that reached each step, and how many ended before it. `spare` of them were spares. */
export function Funnel({ shapes, spare = 0 }: { shapes: readonly ShapeCount[]; spare?: number | undefined }) {
  const steps = funnel(shapes);
  const most = Math.max(1, steps[0]?.count ?? 1);
  return (
    <>
      <ol class="funnel">
        {steps.map((step, index) => {
          const before = steps[index - 1]?.count ?? step.count;
          const lost = before - step.count;
          return (
            <li key={step.letter}>
              <span class="funnel-label">{step.label}</span>
              <svg viewBox="0 0 100 10" height="16" width="100%" preserveAspectRatio="none" aria-hidden="true">
                <rect class="share-track" width="100" height="10" />
                <rect class="fill-lost" width={(before / most) * 100} height="10" />
                <rect class="fill-reported" width={(step.count / most) * 100} height="10" />
              </svg>
              <span class="funnel-count">{count(step.count)}</span>
              <span class="funnel-lost quiet">
                {lost > 0 ? `−${count(lost)} (${percent(lost / Math.max(1, before))})` : ""}
              </span>
            </li>
          );
        })}
      </ol>
      {spare > 0 && (
        <p class="hint funnel-note">
          {count(spare)} of the sessions that ended early {spare === 1 ? "was a spare" : "were spares"}: their rounds
          had enough reports without them.
        </p>
      )}
    </>
  );
}

/** Each shape with its events in words, its count and its share. */
export function Shapes({ shapes }: { shapes: readonly ShapeCount[] }) {
  const narrow = useNarrow();
  const total = Math.max(
    1,
    shapes.reduce((sum, entry) => sum + entry.count, 0),
  );
  const columns: Column<ShapeCount>[] = [
    { head: "Shape", name: true, cell: ({ shape }) => <Shape shape={shape} /> },
    { head: "What happened", cell: ({ shape }) => shapeWords(shape) },
    { head: "Sessions", number: true, cell: (entry) => count(entry.count) },
    {
      head: "Share",
      cell: (entry) => (
        <Share value={entry.count / total} text={percent(entry.count / total)} tone={shapeEnd(entry.shape)} />
      ),
    },
  ];
  const phone: Column<ShapeCount>[] = [
    {
      head: "Shape",
      name: true,
      cell: ({ shape }) => (
        <span class="two-lines">
          <Shape shape={shape} />
          <small class="quiet">{shapeWords(shape)}</small>
        </span>
      ),
    },
    {
      head: "Sessions",
      number: true,
      cell: (entry) => (
        <span class="two-lines">
          {count(entry.count)}
          <small class="quiet">{percent(entry.count / total)}</small>
        </span>
      ),
    },
  ];
  return (
    <Table
      label="Shapes of sessions"
      class={narrow ? "phone-rows" : ""}
      columns={narrow ? phone : columns}
      rows={shapes}
      rowKey={({ shape }) => shape}
    />
  );
}

/** One shape as letters, with the events in words on hover and focus. `state` is how its assignment ended. */
export function Shape({ shape, state }: { shape: string | undefined; state?: string }) {
  if (!shape) return <span class="quiet">–</span>;
  return (
    <Hint text={shapeWords(shape)}>
      <span class="shape">
        <Glyph state={state ?? shapeEnd(shape)} />
        <code>{shape}</code>
      </span>
    </Hint>
  );
}
