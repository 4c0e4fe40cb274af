// The audit log: who did what, with a search.

import { useEffect, useState } from "preact/hooks";
import type { AuditRow, Overview, Page } from "../api/types";
import { ACTIONS, searchOf } from "../lib/audit";
import { plural, shortId, words } from "../lib/format";
import { links, setQuery, useLocation } from "../router";
import { useResource } from "../ui/connection";
import { jobIdOf, jobName, rememberJob } from "../ui/names";
import { useNarrow } from "../ui/narrow";
import { Choice, Empty, NotAvailable, Panel, Pending, When } from "../ui/parts";
import { type Column, Pager, Table, usePaging } from "../ui/table";
import { useZone } from "../ui/zone";

/** The search starts when typing pauses for so long, in milliseconds. */
const TYPING_MS = 300;
const FIELDS = ["action", "person", "subject", "since", "until"] as const;

/** Two lines per entry: action and time; subject, and who did it. */
const PHONE: readonly Column<AuditRow>[] = [
  {
    head: "Action",
    name: true,
    cell: (entry) => (
      <span class="two-lines">
        {words(entry.action)}
        <small class="quiet">
          {subjectOf(entry)} · {entry.label || shortId(entry.actor)}
        </small>
      </span>
    ),
  },
  { head: "When", zoned: true, number: true, cell: (entry) => <When at={entry.at_ms} /> },
];

const COLUMNS: readonly Column<AuditRow>[] = [
  { head: "When", zoned: true, cell: (entry) => <When at={entry.at_ms} /> },
  { head: "Action", name: true, cell: (entry) => words(entry.action) },
  {
    head: "Subject",
    cell: (entry) => (
      <span class="subject" data-tip={entry.folded ? undefined : entry.subject}>
        {subjectOf(entry)}
      </span>
    ),
  },
  { head: "Who", cell: (entry) => <span data-tip={entry.actor}>{entry.label || shortId(entry.actor)}</span> },
  {
    head: "Detail",
    wide: true,
    cell: (entry) =>
      entry.folded ? (
        <span class="quiet">on this day (UTC)</span>
      ) : (
        <span class="audit-detail" data-tip={entry.detail}>
          {entry.detail}
        </span>
      ),
  },
];

/** What was changed; in a row for many enrolments, how many. */
function subjectOf({ subject, folded }: AuditRow) {
  if (folded) return plural(folded.entries, "client");
  if (!subject.startsWith("job_")) return shortId(subject);
  return <a href={links.job(subject)}>{jobName(subject) ?? shortId(subject)}</a>;
}

/** The audit log with its search, which is part of the address. */
export function Audit() {
  const { query } = useLocation();
  const zone = useZone();
  // The log has ids of jobs; people know their names.
  for (const { job } of useResource<Overview>("overview").data?.jobs ?? []) rememberJob(job.id, job.name);
  const search = searchOf(query, jobIdOf, zone === "utc");
  const isSearched = FIELDS.some((field) => query.get(field));
  const paging = usePaging(JSON.stringify(search));
  const narrow = useNarrow();
  const audit = useResource<Page<AuditRow>>(
    "audit",
    { ...search, fold: true, limit: 20, after: paging.after },
    { pollMs: 15_000 },
  );
  return (
    <Panel title="Audit" hint="what operators did, enrolments and first refusals, newest first">
      <Search query={query} isSearched={isSearched} />
      {audit.data ? (
        <>
          <Table
            label="What operators did"
            class={narrow ? "phone-rows" : ""}
            columns={narrow ? PHONE : COLUMNS}
            rows={audit.data.items}
            rowKey={(entry) => entry.number}
            stale={audit.stale}
            empty={
              isSearched ? (
                <Empty title="No entry fits">Choose fewer conditions, or a longer time.</Empty>
              ) : (
                <Empty title="No entry yet">What operators do to jobs, tokens and populations is recorded here.</Empty>
              )
            }
          />
          <Pager paging={paging} next={audit.data.next} />
        </>
      ) : (
        <Pending resource={audit} lines={6} missing={<NotAvailable what="The audit log" />} />
      )}
    </Panel>
  );
}

/** The fields of the search. */
function Search({ query, isSearched }: { query: URLSearchParams; isSearched: boolean }) {
  const value = (field: string) => query.get(field) ?? "";
  return (
    <search class="filters">
      <Choice
        label="Action"
        value={value("action")}
        options={[{ value: "", label: "all" }, ...ACTIONS.map((action) => ({ value: action, label: words(action) }))]}
        onChange={(action) => setQuery({ action })}
      />
      <Typed label="Person" value={value("person")} name="person" placeholder="account or token" />
      <Typed label="Subject" value={value("subject")} name="subject" placeholder="job, client 17, token_…" />
      <Day label="From" value={value("since")} onChange={(since) => setQuery({ since })} />
      <Day label="To" value={value("until")} onChange={(until) => setQuery({ until })} />
      {isSearched && (
        <button type="button" onClick={() => setQuery(Object.fromEntries(FIELDS.map((field) => [field, undefined])))}>
          Show all
        </button>
      )}
    </search>
  );
}

/** A text of the search; it takes effect when typing pauses. */
function Typed(props: { label: string; value: string; name: string; placeholder: string }) {
  const { value, name } = props;
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    const timer = setTimeout(() => text.trim() !== value && setQuery({ [name]: text.trim() }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label class="choice">
      <span>{props.label}</span>
      <input
        type="search"
        value={text}
        placeholder={props.placeholder}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </label>
  );
}

function Day(props: { label: string; value: string; onChange: (day: string) => void }) {
  return (
    <label class="choice">
      <span>{props.label}</span>
      <input type="date" value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)} />
    </label>
  );
}
