// The answers of an analysis: each number with the 95 % interval of its noise.

import type { Answer, Estimate, Job, JobAnswers } from "../api/types";
import { endsSomething } from "../lib/events";
import { count, plural } from "../lib/format";
import { useResource } from "../ui/connection";
import { Empty, NotAvailable, Panel, Pending } from "../ui/parts";
import { Table } from "../ui/table";

/** Shown for a job with `[analysis]`. */
export function AnswersPanel({ job }: { job: Job }) {
  const answers = useResource<JobAnswers>(`jobs/${job.id}/answers`, {}, { live: endsSomething(job.id) });
  return (
    <Panel title="Answers" hint="what the tables of all clients say together, between the ends of the noise's interval">
      {answers.data ? (
        <Answers answers={answers.data} />
      ) : (
        <Pending resource={answers} lines={4} missing={<NotAvailable what="The answers" />} />
      )}
    </Panel>
  );
}

function Answers({ answers }: { answers: JobAnswers }) {
  const { rounds, rounds_needed, clients } = answers;
  if (rounds === 0) return <Empty title="No answers yet">The queries take {plural(rounds_needed, "round")}.</Empty>;
  return (
    <>
      <p>
        {plural(clients, "client")} answered. {rounds} of {plural(rounds_needed, "round")} done.
      </p>
      {answers.answers.map((answer) => (
        <OneAnswer key={answer.name} answer={answer} />
      ))}
    </>
  );
}

function OneAnswer({ answer }: { answer: Answer }) {
  const { name, kind, column, epsilon, noise, estimates } = answer;
  const scale = scaleOf(estimates);
  return (
    <section>
      <h3>
        {name}: {kind.replace("_", " ")} of {column}
      </h3>
      {noise > 0 && (
        <p>
          The noise of a count has a standard deviation of {shown(noise)} rows
          {epsilon != null && `; this answer alone spends an epsilon of ${epsilon.toFixed(3)}`}.
        </p>
      )}
      {estimates.length === 0 ? (
        <Empty title="Nothing was found above the noise" />
      ) : (
        <Table<Estimate>
          label={`The answer to ${name}`}
          rows={estimates}
          rowKey={({ label }) => label}
          columns={[
            { head: "of", cell: ({ label }) => label, name: true },
            { head: "estimate", cell: ({ value }) => (value == null ? "too few rows" : shown(value)), number: true },
            {
              head: "95 % interval",
              cell: ({ low, high }) => (low == null || high == null ? "" : `${shown(low)} to ${shown(high)}`),
              number: true,
            },
            { head: "", cell: (estimate) => <Whisker estimate={estimate} scale={scale} />, wide: true },
          ]}
        />
      )}
    </section>
  );
}

/** From the least to the largest end of all intervals, and 0. */
function scaleOf(estimates: readonly Estimate[]): (value: number) => number {
  const ends = estimates.flatMap(({ low, high }) => (low == null || high == null ? [] : [low, high]));
  const [least, most] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  return (value) => (most > least ? (100 * (value - least)) / (most - least) : 0);
}

/** A bar from 0 to the estimate, and a line between the ends of its interval. */
function Whisker({ estimate, scale }: { estimate: Estimate; scale: (value: number) => number }) {
  const { value, low, high } = estimate;
  if (value == null || low == null || high == null) return null;
  const [zero, end] = [scale(0), scale(value)];
  return (
    <span class="share">
      <svg viewBox="0 0 100 8" width="160" height="8" preserveAspectRatio="none" aria-hidden="true">
        <rect class="share-track" width="100" height="8" />
        <rect class="fill-accent" x={Math.min(zero, end)} width={Math.abs(end - zero)} y="2" height="4" />
        <rect class="share-mark" x={scale(low)} width={Math.max(1, scale(high) - scale(low))} y="3.5" height="1" />
      </svg>
    </span>
  );
}

function shown(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude >= 100) return `${value < 0 ? "-" : ""}${count(Math.round(magnitude))}`;
  return value.toFixed(magnitude >= 1 ? 2 : 4);
}
