// The privacy of a job: its budget and what of it is spent, the noise, the ledger.

import type { BudgetState, Job, JobPrivacy, JobPrivacyState, LedgerEntry, Mechanism } from "../api/types";
import { endsSomething } from "../lib/events";
import { count, percent, plural } from "../lib/format";
import { links } from "../router";
import { useResource } from "../ui/connection";
import { Ago, NotAvailable, Panel, Pending, Share, Stat, Stats } from "../ui/parts";
import { Pager, Table, usePaging } from "../ui/table";

const PAGE = 20;
/** Above this the model is mostly noise. */
const NOISE_MUCH = 1;

/** Shown for a job with `[privacy]`. */
export function PrivacyPanel({ job }: { job: Job }) {
  const privacy = useResource<JobPrivacyState>(`jobs/${job.id}/privacy`, {}, { live: endsSomething(job.id) });
  return (
    <Panel title="Privacy" hint="what the models of this job may tell about one unit, and what of that is spent">
      {privacy.data?.privacy ? (
        <>
          <Spent job={job} privacy={privacy.data.privacy} />
          {privacy.data.shared && <Shared job={job} state={privacy.data.shared} />}
        </>
      ) : (
        <Pending resource={privacy} lines={4} missing={<NotAvailable what="The ledger" />} />
      )}
    </Panel>
  );
}

function Spent({ job, privacy }: { job: Job; privacy: JobPrivacy }) {
  const { terms, spent, ledger } = privacy;
  const unit = typeof terms.unit === "object" ? terms.unit.attribute : "client";
  const noise = terms.noise_multiplier ?? 0;
  const isLocal = terms.mechanism === "local";
  const isOfClients = isLocal || terms.mechanism === "distributed";
  // The budget of noise that clients add is kept against the coordinator.
  const ofBudget = (isOfClients ? spent?.cohorts : spent?.models) ?? 0;
  return (
    <>
      {spent ? (
        <Stats>
          <Stat
            label="spent"
            title={budgetOf(terms.mechanism)}
            value={<Share value={ofBudget / terms.epsilon} text={epsilon(ofBudget)} tone="accent" />}
            detail={` of epsilon ${epsilon(terms.epsilon)}`}
          />
          <Stat
            label={isOfClients ? "readers" : "cohorts known"}
            title={
              isOfClients
                ? "Against who sees the models, and not what single clients or groups send."
                : "Against who also knows who took part in which round."
            }
            value={epsilon(isOfClients ? spent.models : spent.cohorts)}
          />
          <Stat label="delta" title="The chance that the promise does not hold." value={terms.delta} />
          <Stat
            label="noise"
            title={
              isLocal
                ? "Standard deviation of the noise of one client, in clips: each adds its own."
                : isOfClients
                  ? "Standard deviation of the noise of the sum of a group, in clips: its members add it."
                  : "Standard deviation of the noise of a sum, in clips."
            }
            value={noise.toFixed(2)}
            detail={` clips, ${terms.mechanism ?? "blt"}`}
          />
          {!job.file.analysis && (
            <Stat
              label="noise in the last model"
              title="The noise that the last model has, as a share of the longest way that it can have gone."
              value={percent(privacy.noise_ratio, 0)}
            />
          )}
        </Stats>
      ) : (
        <p class="problem">This job has a test key, with which everybody can repeat its noise: it promises nothing.</p>
      )}
      <p>
        Each {unit} contributes at most {plural(terms.participations_max ?? 4, "update")},{" "}
        {plural(terms.separation ?? 1, "version")} apart at least, which {count(privacy.units_needed)} of them make
        possible. {privacy.is_spent && "The budget allows no further round."}
        {privacy.noise_ratio > NOISE_MUCH &&
          !job.file.analysis &&
          " The model is mostly noise: more updates a round, a smaller model or a larger epsilon help."}
      </p>
      {ledger.length > 0 && <Ledger job={job} ledger={ledger} />}
    </>
  );
}

/** Against whom the budget of a job with this noise is kept. */
function budgetOf(mechanism: Mechanism | undefined): string {
  switch (mechanism) {
    case "local":
      return "Against the coordinator, which sees the noised answer of each client.";
    case "distributed":
      return "Against the coordinator, which sees the sum of each group and who took part.";
    default:
      return "Against who sees the models, and not who took part in which round.";
  }
}

/** The budget that all jobs of the population share. */
function Shared({ job, state }: { job: Job; state: BudgetState }) {
  const { budget, spent, jobs } = state;
  return (
    <>
      <Stats>
        <Stat
          label="all jobs"
          title="What the releases of all jobs of the population spend together. It counts on no draw."
          value={<Share value={spent / budget.epsilon} text={epsilon(spent)} tone="accent" />}
          detail={` of epsilon ${epsilon(budget.epsilon)}`}
        />
        <Stat label="delta" title="The chance that the shared promise does not hold." value={budget.delta} />
      </Stats>
      <p>
        All jobs of {job.file.population} share this budget, {count(jobs.length)} so far: no round opens that would pass
        it.
      </p>
    </>
  );
}

function Ledger({ job, ledger }: { job: Job; ledger: readonly LedgerEntry[] }) {
  const paging = usePaging(job.id);
  const newest = [...ledger].reverse();
  const from = Number(paging.after ?? 0);
  const next = from + PAGE < newest.length ? String(from + PAGE) : undefined;
  return (
    <>
      <Table<LedgerEntry>
        label="The releases, newest first"
        rows={newest.slice(from, from + PAGE)}
        rowKey={({ number }) => number}
        columns={[
          { head: "#", cell: ({ number }) => number, number: true },
          {
            head: "round",
            cell: ({ round }) => <a href={links.round(job.id, round)}>{round}</a>,
            number: true,
            name: true,
          },
          { head: "version", cell: ({ version }) => version, number: true },
          { head: "when", cell: ({ at_ms }) => <Ago at={at_ms} /> },
          {
            head: "most updates of one",
            cell: ({ participations }) => participations,
            number: true,
            title: "Most updates of one unit so far, this round included.",
          },
          { head: "hash", cell: ({ hash }) => <code>{hash.slice(0, 12)}</code>, wide: true },
        ]}
      />
      <Pager paging={paging} next={next} />
    </>
  );
}

function epsilon(value: number): string {
  return value.toFixed(value < 0.1 ? 4 : 2);
}
