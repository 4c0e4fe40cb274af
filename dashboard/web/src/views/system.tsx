// The coordinators: leases, load, latency, storage, scheduled work; and the audit log below them.

import { Fragment } from "preact";
import type { LoadSample, Node, ScheduledWork, System } from "../api/types";
import { Trend } from "../charts/trend";
import { bytes, count, duration, plural, presence, short, shortId, UNKNOWN, words } from "../lib/format";
import { links } from "../router";
import { useNow, useResource, useScope } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { jobName } from "../ui/names";
import { useNarrow } from "../ui/narrow";
import { Ago, At, Empty, Panel, Pending, Stat, Stats } from "../ui/parts";
import { type Column, Table } from "../ui/table";
import { Audit } from "./audit";

/** The system as one coordinator sees it. An operator of one population sees only what concerns that. */
export function SystemView() {
  const scope = useScope();
  if (scope === undefined) return <WholeSystem />;
  return (
    <>
      <header class="view-head">
        <h1>System</h1>
        <p class="quiet">Population {scope} only</p>
      </header>
      <Audit />
    </>
  );
}

function WholeSystem() {
  const system = useResource<System>("system", {}, { pollMs: 5_000 });
  const { data } = system;
  return (
    <>
      <header class="view-head">
        <h1>System</h1>
        {data && (
          <p class="quiet">
            Tributary {data.version} on {ENGINES[data.engine]}, started <Ago at={data.started_at_ms} />
            {data.parent && `, relay of ${data.parent}`} · <a href="docs">API documentation</a>
          </p>
        )}
      </header>
      <Panel title="Now" class="now-panel">
        {data ? <Figures system={data} /> : <Pending resource={system} lines={3} what="The system's state" />}
      </Panel>
      {data && <LastHour samples={data.history ?? []} />}
      <Panel title="Coordinators" hint="each accepts check-ins and updates; a lease says which one leads a job">
        {data ? <Nodes nodes={data.nodes} /> : <Pending resource={system} lines={3} what="The list of coordinators" />}
      </Panel>
      <Panel title="Scheduled work" hint="once for all coordinators">
        {data ? <Schedules work={data.schedules} /> : <Pending resource={system} lines={3} what="Scheduled work" />}
      </Panel>
      <Audit />
    </>
  );
}

const ENGINES: Record<System["engine"], string> = { sqlite: "SQLite", postgres: "PostgreSQL" };

const YEAR_MS = 365 * 86_400_000;

/** Load, latency and storage. */
function Figures({ system }: { system: System }) {
  const { db, storage } = system;
  const { full_in_ms: fullInMs } = storage;
  const latency = (ms: number | undefined) => (ms === undefined ? UNKNOWN : `${short(ms)} ms`);
  return (
    <Stats class="system-stats even">
      <Stat
        label="Online now"
        value={count(system.online_clients ?? system.held_clients)}
        detail={presence(system.online_clients ?? 0, system.working_clients ?? 0) || "of all coordinators"}
        title={`${count(system.held_clients)} of them are held by the coordinator that answers`}
      />
      <Stat label="Check-ins" value={`${short(system.checkins_per_s)} /s`} detail="this coordinator" />
      <Stat label="Updates" value={`${short(system.updates_per_s ?? 0)} /s`} detail="this coordinator" />
      <Stat label="Updates in flight" value={count(system.updates_in_flight)} />
      <Stat
        label="Database reads"
        value={latency(db.read_ms_p50)}
        detail={db.read_ms_p99 === undefined ? undefined : `p99 ${short(db.read_ms_p99)} ms`}
      />
      <Stat
        label="Database writes"
        value={latency(db.write_ms_p50)}
        detail={db.write_ms_p99 === undefined ? undefined : `p99 ${short(db.write_ms_p99)} ms`}
      />
      <Stat label="Database" value={bytes(storage.database_bytes)} />
      {storage.free_bytes !== undefined && (
        <Stat
          label="Disk, free"
          value={bytes(storage.free_bytes)}
          detail={
            fullInMs === undefined || fullInMs > YEAR_MS
              ? "enough for a year at this rate"
              : `full in ${duration(fullInMs)} at this rate`
          }
        />
      )}
      <Stat label="Models" value={bytes(storage.models_bytes)} />
      <Stat label="Updates stored" value={bytes(storage.updates_bytes)} detail="until their round ends" />
    </Stats>
  );
}

/** The load of the last hour as four curves. It is kept in memory, so it begins with the process. */
function LastHour({ samples }: { samples: readonly LoadSample[] }) {
  const first = samples[0];
  if (!first || samples.length < 2) return null;
  const rate = (value: number) => `${short(value)} /s`;
  return (
    <Panel title="The last hour" hint="of the coordinator that answers; twice a minute, kept in memory">
      <div class="trends">
        <Trend name="Check-ins" samples={samples} of={(sample) => sample.checkins_per_s} format={rate} />
        <Trend name="Updates" samples={samples} of={(sample) => sample.updates_per_s} format={rate} />
        <Trend name="Memory" samples={samples} of={(sample) => sample.memory_bytes} format={bytes} />
        <Trend name="Database" samples={samples} of={(sample) => sample.database_bytes} format={bytes} />
      </div>
      <p class="hint">
        Since <At at={first.at_ms} />
      </p>
    </Panel>
  );
}

const NODE_WORDS = { alive: "running", late: "late: missed a renewal", dead: "dead: its lease is over" } as const;

/** The coordinators of the database. */
function Nodes({ nodes }: { nodes: readonly Node[] }) {
  const now = useNow(5000);
  const narrow = useNarrow();
  const columns: Column<Node>[] = [
    { head: "Coordinator", name: true, cell: (node) => node.id },
    {
      head: "State",
      // The coordinator that answers judges by the lease of each.
      cell: (node) => <StateTag state={node.state ?? "alive"} text={NODE_WORDS[node.state ?? "alive"]} />,
    },
    { head: "Version", wide: true, cell: (node) => node.version },
    {
      head: "Leads",
      cell: (node) => (
        <span class="two-lines">
          <Leases node={node} now={now} />
          <Shards node={node} />
        </span>
      ),
    },
    { head: "Last seen", number: true, cell: (node) => <Ago at={node.seen_at_ms} /> },
    { head: "Started", number: true, wide: true, cell: (node) => <Ago at={node.started_at_ms} /> },
  ];
  const phone: Column<Node>[] = [
    {
      head: "Coordinator",
      name: true,
      cell: (node) => (
        <span class="two-lines">
          {node.id}
          <small class="quiet">
            leads <Leases node={node} now={now} />
          </small>
          <Shards node={node} />
        </span>
      ),
    },
    {
      head: "State",
      number: true,
      cell: (node) => (
        <span class="two-lines">
          <StateTag state={node.state ?? "alive"} text={NODE_WORDS[node.state ?? "alive"]} />
          <small class="quiet">
            <Ago at={node.seen_at_ms} />
          </small>
        </span>
      ),
    },
  ];
  return (
    <Table
      label="Coordinators"
      class={narrow ? "phone-rows" : ""}
      columns={narrow ? phone : columns}
      rows={nodes}
      rowKey={(node) => node.id}
      empty={
        <Empty title="One coordinator, on SQLite" command="tributary serve --database postgres://.. --node north">
          Several coordinators can share the work on one PostgreSQL:
        </Empty>
      }
    />
  );
}

/** Jobs of a coordinator that are named. */
const LEASES_MAX = 8;

/** The jobs that a coordinator leads. */
function Leases({ node, now }: { node: Node; now: number }) {
  if (node.leases.length === 0) return <span class="quiet">no job</span>;
  const more = node.leases.length - LEASES_MAX;
  return (
    <span class="leads">
      {node.leases.slice(0, LEASES_MAX).map((lease, index) => (
        <Fragment key={lease.job}>
          {index > 0 && ", "}
          <a
            href={links.job(lease.job)}
            data-tip={`lease ${lease.token}, ends in ${leftOf(lease, now)} unless renewed`}
          >
            {jobName(lease.job) ?? shortId(lease.job)}
          </a>
        </Fragment>
      ))}
      {more > 0 && <span class="quiet"> and {plural(more, "other")}</span>}
    </span>
  );
}

/** The shards of sums that a coordinator adds up, by job. */
function Shards({ node }: { node: Node }) {
  const counts = new Map<string, number>();
  for (const { job } of node.shards ?? []) counts.set(job, (counts.get(job) ?? 0) + 1);
  if (counts.size === 0) return null;
  return (
    <small class="quiet">
      adds up{" "}
      {[...counts].map(([job, shards], index) => (
        <Fragment key={job}>
          {index > 0 && ", "}
          {plural(shards, "shard")} of <a href={links.job(job)}>{jobName(job) ?? shortId(job)}</a>
        </Fragment>
      ))}
    </small>
  );
}

function leftOf(lease: Node["leases"][number], now: number): string {
  return duration(Math.max(0, lease.expires_at_ms - now));
}

function Outcome({ last }: { last: ScheduledWork["last"] }) {
  if (!last) return null;
  const running = last.ended_at_ms === undefined;
  return (
    <span class="outcome">
      <StateTag
        state={last.failed ? "abandoned" : running ? "running" : "committed"}
        text={last.failed ? "failed" : running ? "running" : "done"}
      />{" "}
      {last.outcome}
    </span>
  );
}

/** Two lines per piece of work: its name and last outcome; its next and last run. */
const SCHEDULES_PHONE: readonly Column<ScheduledWork>[] = [
  {
    head: "Work",
    name: true,
    cell: (entry) => (
      <span class="two-lines">
        {words(entry.name)}
        <Outcome last={entry.last} />
      </span>
    ),
  },
  {
    head: "Next, last",
    number: true,
    cell: (entry) => (
      <span class="two-lines">
        <Ago at={entry.next_at_ms} />
        <small class="quiet">{entry.last ? <Ago at={entry.last.started_at_ms} /> : "never"}</small>
      </span>
    ),
  },
];

/** The scheduled work with its last runs. */
function Schedules({ work }: { work: readonly ScheduledWork[] }) {
  const narrow = useNarrow();
  const columns: Column<ScheduledWork>[] = [
    { head: "Work", name: true, cell: (entry) => words(entry.name) },
    {
      head: "When",
      cell: (entry) => (
        <span data-tip={entry.time_zone}>
          <code>{entry.cron}</code>
        </span>
      ),
    },
    { head: "Next", number: true, cell: (entry) => <Ago at={entry.next_at_ms} /> },
    { head: "Last run", number: true, cell: (entry) => (entry.last ? <Ago at={entry.last.started_at_ms} /> : "never") },
    {
      head: "Outcome",
      cell: (entry) => <Outcome last={entry.last} />,
    },
    { head: "By", wide: true, cell: (entry) => entry.last?.node ?? "" },
  ];
  return (
    <Table
      label="Scheduled work"
      class={narrow ? "phone-rows" : ""}
      columns={narrow ? SCHEDULES_PHONE : columns}
      rows={work}
      rowKey={(entry) => entry.name}
      empty={<Empty title="Nothing is scheduled" command="tributary schedule list" />}
    />
  );
}
