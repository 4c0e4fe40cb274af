// The releases of a job's population: which model version its apps predict with, and who has which.

import { useId, useState } from "preact/hooks";
import type { ApiError } from "../api/http";
import type { Job, Page, Release } from "../api/types";
import { bytes, count, percent } from "../lib/format";
import { links } from "../router";
import { useConnection, useMay, useResource } from "../ui/connection";
import { StateTag } from "../ui/glyph";
import { Ago, Attributes, Confirm, Empty, NotAvailable, Panel, Pending, Share, Trouble } from "../ui/parts";
import { type Column, Table } from "../ui/table";

const POLL_MS = 10_000;
const MILLION = 1_000_000;
/** The shares that a release takes one after the other. */
const STEPS = [0.05, 0.1, 0.25, 0.5, 1];

/** Where a release stands, as a state that has a colour. */
const TONES = { held: "awaiting_model", out: "completed", withdrawn: "stopped", refused: "rejected" } as const;

/** What is to be confirmed. */
type Asked = { release: Release; share?: number };

/** The releases of the population, and a form that makes one. */
export function JobReleases({ job }: { job: Job }) {
  const { api, notify } = useConnection();
  const may = useMay("operator");
  const [asked, ask] = useState<Asked>();
  const query = { population: job.file.population };
  const releases = useResource<Page<Release>>("releases", query, { pollMs: POLL_MS });
  const items = releases.data?.items ?? [];
  const run = async ({ release, share }: Asked) => {
    if (share === undefined) await api.json(`releases/${release.id}/withdraw`, { method: "POST" });
    else await api.json(`releases/${release.id}`, { method: "PATCH", body: { share: Math.round(share * MILLION) } });
    releases.refresh();
    notify(share === undefined ? "withdrawn" : `reaches ${percent(share, 0)} of the clients`, "good");
  };
  return (
    <Panel
      title="Releases"
      hint={`which version the apps of ${job.file.population} predict with; clients ask about once an hour`}
    >
      {releases.data ? (
        <Table
          label="Releases, the newest of each channel first"
          columns={columnsOf(may ? ask : undefined)}
          rows={items}
          rowKey={({ id }) => id}
          empty={<Empty title="Nothing is released" command={`tributary release ${job.file.name} VERSION`} />}
        />
      ) : (
        <Pending resource={releases} lines={3} missing={<NotAvailable what="The list of releases" />} />
      )}
      {may && job.model_version !== undefined && !job.file.analysis && (
        <ReleaseForm job={job} newest={job.model_version} changed={releases.refresh} />
      )}
      {asked && (
        <Confirm
          title={asked.share === undefined ? "Withdraw this release?" : `Reach ${percent(asked.share, 0)}?`}
          action={asked.share === undefined ? "Withdraw" : "Widen"}
          danger={asked.share === undefined}
          run={() => run(asked)}
          onClose={() => ask(undefined)}
        >
          <Consequence asked={asked} releases={items} />
        </Confirm>
      )}
    </Panel>
  );
}

function Consequence({ asked: { release, share }, releases }: { asked: Asked; releases: readonly Release[] }) {
  const name = `Release ${release.number} of ${release.channel}`;
  if (share !== undefined) return <p>{name} reaches more clients. Those that have it keep it.</p>;
  const before = releases.find(
    ({ channel, number, state }) => channel === release.channel && number < release.number && state === "out",
  );
  return (
    <p>
      {name} is taken back for good.{" "}
      {before
        ? `Its clients go back to release ${before.number}, version ${before.version} of ${before.job_name}.`
        : "The channel has no release before it: apps are left without a model."}
    </p>
  );
}

function columnsOf(ask: ((asked: Asked) => void) | undefined): Column<Release>[] {
  return [
    {
      head: "Release",
      name: true,
      cell: ({ channel, number }) => (
        <>
          {channel} {number}
        </>
      ),
    },
    {
      head: "Model",
      cell: ({ job, job_name, version }) => (
        <>
          <a href={links.job(job, "models")}>{job_name}</a> {version}
        </>
      ),
    },
    {
      head: "State",
      cell: ({ state, gate_job }) =>
        state === "held" && gate_job ? (
          <a href={links.job(gate_job)}>
            <StateTag state={TONES[state]} text={state} />
          </a>
        ) : (
          <StateTag state={TONES[state]} text={state} />
        ),
    },
    {
      head: "Share",
      number: true,
      cell: ({ share }) => <Share value={share / MILLION} text={percent(share / MILLION, 0)} tone="accent" />,
    },
    { head: "Clients", number: true, cell: ({ clients }) => count(clients) },
    {
      head: "For",
      wide: true,
      cell: ({ attributes }) =>
        Object.keys(attributes ?? {}).length === 0 ? "all" : <Attributes value={attributes} />,
    },
    { head: "Gate", wide: true, cell: ({ gate, verdict }) => gate && <span data-tip={verdict}>{gate}</span> },
    { head: "Download", number: true, wide: true, cell: (release) => bytes(release.difference_bytes ?? release.bytes) },
    { head: "Made", number: true, wide: true, cell: ({ created_at_ms }) => <Ago at={created_at_ms} /> },
    { head: "", cell: (release) => ask && <Steps release={release} ask={ask} /> },
  ];
}

/** Buttons that widen or withdraw a release. */
function Steps({ release, ask }: { release: Release; ask: (asked: Asked) => void }) {
  if (release.state !== "out" && release.state !== "held") return null;
  if (release.deleted_at_ms !== undefined) return <span class="quiet">replaced</span>;
  const next = STEPS.find((share) => share * MILLION > release.share);
  const name = `release ${release.number} of ${release.channel}`;
  return (
    <span class="release-steps">
      {next !== undefined && (
        <button
          type="button"
          class="small"
          aria-label={`Widen ${name} to ${percent(next, 0)}`}
          onClick={() => ask({ release, share: next })}
        >
          {percent(next, 0)}
        </button>
      )}
      <button type="button" class="small" aria-label={`Withdraw ${name}`} onClick={() => ask({ release })}>
        Withdraw
      </button>
    </span>
  );
}

/** Releases a version of the job. */
function ReleaseForm({ job, newest, changed }: { job: Job; newest: number; changed: () => void }) {
  const { api, notify } = useConnection();
  const [channel, setChannel] = useState("stable");
  const [version, setVersion] = useState(newest);
  const [share, setShare] = useState(STEPS[0]!);
  const [gate, setGate] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const id = useId();
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const body = { job: job.id, version, channel, share: Math.round(share * MILLION), ...(gate ? { gate } : {}) };
      const release = await api.json<Release>("releases", { method: "POST", body });
      notify(`release ${release.number} of ${channel} is ${release.state}`, "good");
      changed();
    } catch (problem) {
      setError(problem as ApiError);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="release-form" onSubmit={submit}>
      <label for={`${id}-version`}>Version</label>
      <input
        id={`${id}-version`}
        type="number"
        min={0}
        max={newest}
        value={version}
        onInput={(event) => setVersion(Number(event.currentTarget.value))}
      />
      <label for={`${id}-channel`}>Channel</label>
      <input
        id={`${id}-channel`}
        required
        pattern="[A-Za-z0-9][A-Za-z0-9._\-]{0,63}"
        value={channel}
        onInput={(event) => setChannel(event.currentTarget.value)}
      />
      <label for={`${id}-share`}>Share</label>
      <select
        id={`${id}-share`}
        value={String(share)}
        onChange={(event) => setShare(Number(event.currentTarget.value))}
      >
        {STEPS.map((step) => (
          <option key={step} value={String(step)}>
            {percent(step, 0)}
          </option>
        ))}
      </select>
      <label for={`${id}-gate`}>Gate</label>
      <input
        id={`${id}-gate`}
        placeholder="accuracy >= 0.9"
        value={gate}
        onInput={(event) => setGate(event.currentTarget.value)}
      />
      <button type="submit" disabled={busy}>
        Release
      </button>
      {error && <Trouble error={error} />}
    </form>
  );
}
