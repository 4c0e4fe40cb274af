// The assignments of a round as a table.

import { useState } from "preact/hooks";
import type { Assignment } from "../api/types";
import { tookMs } from "../lib/assignments";
import { lossReason, STATES, shownState } from "../lib/cohort";
import { bytes, count, duration, percent, plural, real } from "../lib/format";
import { shapeWords } from "../lib/shapes";
import { links } from "../router";
import { ASSIGNMENTS_MAX, type Assignments } from "../ui/all-assignments";
import { stateWord } from "../ui/cohort";
import { StateTag } from "../ui/glyph";
import { useNarrow } from "../ui/narrow";
import { Choice, Empty, Hint, Panel } from "../ui/parts";
import { type Column, Table } from "../ui/table";

/** Why the report did not count; a report that did has no reason. How far the session came is shown on hover. */
function Reason({ item }: { item: Assignment }) {
  if (item.state === "reported" || item.state === "assigned") return null;
  const told = [item.explanation ? item.reason : undefined, item.shape && shapeWords(item.shape)];
  return (
    <span class="reason">
      <Hint text={told.filter(Boolean).join(". ") || undefined}>{lossReason(item)}</Hint>
    </span>
  );
}

const PER_PAGE = 50;

function columnsOf(task: string, masked: boolean, coded: boolean): Column<Assignment>[] {
  return [
    {
      head: "Client",
      name: true,
      sort: (item) => item.client_number,
      cell: (item) => <a href={links.client(item.client)}>{item.client_number}</a>,
    },
    {
      head: "State",
      sort: (item) => STATES.indexOf(shownState(item)),
      cell: (item) => <StateTag state={shownState(item)} text={stateWord(shownState(item))} />,
    },
    { head: "Reason", cell: (item) => <Reason item={item} /> },
    ...(coded
      ? [
          {
            head: "Parts",
            title: "the parts of the data that the client trains on",
            sort: (item: Assignment) => item.parts?.join(" "),
            cell: (item: Assignment) => item.parts?.join(", "),
          },
        ]
      : []),
    {
      head: "Took",
      number: true,
      title: "the client's own time: of a straggler, until it came back",
      sort: tookMs,
      cell: (item) => duration(tookMs(item)),
    },
    { head: "Worked", number: true, sort: (item) => item.work_ms, cell: (item) => duration(item.work_ms) },
    // Of a member of a group, the row says what the sum of its group counts for.
    ...(masked
      ? []
      : [
          {
            head: "Examples",
            number: true,
            sort: (item: Assignment) => item.weight,
            cell: (item: Assignment) => count(item.weight),
          },
          {
            head: "Loss",
            number: true,
            sort: (item: Assignment) => item.loss,
            cell: (item: Assignment) => real(item.loss),
          },
        ]),
    ...(task === "train" && !masked
      ? [
          {
            head: "Norm",
            number: true,
            wide: true,
            sort: (item: Assignment) => item.update_norm,
            cell: (item: Assignment) => real(item.update_norm),
          },
          {
            head: "Cosine",
            number: true,
            wide: true,
            sort: (item: Assignment) => item.cosine,
            cell: (item: Assignment) => real(item.cosine),
          },
        ]
      : masked
        ? []
        : [{ head: "Accuracy", number: true, cell: (item: Assignment) => percent(item.accuracy) }]),
    { head: "Up", number: true, wide: true, cell: (item) => bytes(item.bytes_up) },
    { head: "Down", number: true, wide: true, cell: (item) => bytes(item.bytes_down) },
  ];
}

/** Two lines per assignment: client and reason; state, and how long it took. */
const phoneColumns = (masked: boolean): Column<Assignment>[] => [
  {
    head: "Client",
    name: true,
    sort: (item) => item.client_number,
    cell: (item) => (
      <span class="two-lines">
        <a href={links.client(item.client)}>{item.client_number}</a>
        <small class="quiet">
          {item.state === "reported" || item.state === "assigned"
            ? !masked && plural(item.weight ?? 0, "example")
            : lossReason(item)}
        </small>
      </span>
    ),
  },
  {
    head: "State",
    number: true,
    sort: (item) => STATES.indexOf(shownState(item)),
    cell: (item) => (
      <span class="two-lines">
        <StateTag state={shownState(item)} text={stateWord(shownState(item))} />
        <small class="quiet">{duration(tookMs(item))}</small>
      </span>
    ),
  },
];

/** The assignments as a table with a filter by state. */
export function AssignmentTable({
  assignments,
  task,
  masked,
}: {
  assignments: Assignments;
  task: string;
  masked: boolean;
}) {
  const narrow = useNarrow();
  const [state, setState] = useState("");
  const [page, setPage] = useState(0);
  const rows = assignments.items.filter((item) => state === "" || shownState(item) === state);
  const last = Math.max(0, Math.ceil(rows.length / PER_PAGE) - 1);
  const at = Math.min(page, last);
  const coded = assignments.items.some((item) => item.parts !== undefined);
  if (assignments.items.length === 0) return null;
  return (
    <Panel
      title="Assignments"
      hint={
        assignments.items.length >= ASSIGNMENTS_MAX
          ? `the first ${count(ASSIGNMENTS_MAX)}`
          : plural(rows.length, "client")
      }
      actions={
        <Choice
          label="State"
          value={state}
          onChange={(value) => {
            setState(value);
            setPage(0);
          }}
          options={[{ value: "", label: "any" }, ...STATES.map((name) => ({ value: name, label: stateWord(name) }))]}
        />
      }
    >
      <Table
        label="Assignments"
        class={narrow ? "phone-rows" : ""}
        columns={narrow ? phoneColumns(masked) : columnsOf(task, masked, coded)}
        rows={rows}
        slice={[at * PER_PAGE, (at + 1) * PER_PAGE]}
        rowKey={(item) => item.id}
        empty={<Empty title="No client is in this state" />}
      />
      {last > 0 && (
        <nav class="pager" aria-label="Pages of assignments">
          <span>
            {count(at * PER_PAGE + 1)} to {count(Math.min(rows.length, (at + 1) * PER_PAGE))} of {count(rows.length)}
          </span>
          <span class="pager-buttons">
            <button type="button" class="small" disabled={at === 0} onClick={() => setPage(at - 1)}>
              Back
            </button>
            <button type="button" class="small" disabled={at === last} onClick={() => setPage(at + 1)}>
              Next
            </button>
          </span>
        </nav>
      )}
    </Panel>
  );
}
