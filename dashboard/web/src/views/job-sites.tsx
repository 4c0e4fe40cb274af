// A job that only evaluates: what each client measured of each model.

import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/http";
import type { Assignment, Job, ModelVersion, Page } from "../api/types";
import { endsSomething } from "../lib/events";
import { count, percent, plural, real } from "../lib/format";
import { type Site, siteTable } from "../lib/sites";
import { links } from "../router";
import { useConnection, useResource } from "../ui/connection";
import { Measured } from "../ui/measured";
import { Empty, Panel, Pending } from "../ui/parts";
import { type Column, Table } from "../ui/table";

const SITES_MAX = 200;

/** The models beside the clients, with intervals and the reasons where there is no result. */
export function JobSites({ job }: { job: Job }) {
  const live = endsSomething(job.id);
  const models = useResource<Page<ModelVersion>>(`jobs/${job.id}/models`, { limit: 20 }, { live });
  const items = models.data?.items ?? [];
  const sites = useSites(job.id, items);
  const name = (model: ModelVersion) => job.file.evaluation?.models?.[model.version] ?? `model ${model.version}`;
  return (
    <Panel
      title="Models at clients"
      hint="accuracy with its 95 % interval and the number of examples; nothing is trained"
    >
      {models.data ? (
        <>
          <Table
            label="Models"
            columns={modelColumns(name)}
            rows={items}
            rowKey={({ version }) => version}
            empty={<Empty title="No model yet" />}
          />
          <Table
            label="Clients"
            columns={siteColumns(items, name)}
            rows={sites}
            rowKey={({ number }) => number}
            empty={<Empty title="No client has begun" />}
          />
        </>
      ) : (
        <Pending resource={models} lines={4} what="The list of models" />
      )}
    </Panel>
  );
}

/** The assignments of all evaluations, one request for each model. */
function useSites(job: string, models: readonly ModelVersion[]): Site[] {
  const { api } = useConnection();
  const [sites, set] = useState<Site[]>([]);
  // A model's accuracy comes with the end of its evaluation.
  const key = models.map(({ version, accuracy, loss }) => `${version}:${accuracy ?? loss ?? ""}`).join();
  useEffect(() => {
    const stop = new AbortController();
    const load = async () => {
      const rounds: Assignment[][] = [];
      for (const { version } of models) {
        const path = `jobs/${job}/rounds/${version + 1}/assignments`;
        try {
          const query = { task: "evaluate", limit: SITES_MAX };
          rounds.push((await api.json<Page<Assignment>>(path, { query, signal: stop.signal })).items);
        } catch (error) {
          // Its turn has not come yet.
          if (error instanceof ApiError && error.missing) break;
          throw error;
        }
      }
      set(siteTable(rounds));
    };
    load().catch(() => {});
    return () => stop.abort();
  }, [job, key]);
  return sites;
}

function modelColumns(name: (model: ModelVersion) => string): Column<ModelVersion>[] {
  return [
    { head: "Model", name: true, cell: name },
    {
      head: "Accuracy",
      number: true,
      cell: ({ accuracy, measured_on }) => <Measured accuracy={accuracy} on={measured_on} />,
    },
    { head: "Loss", number: true, cell: ({ loss }) => real(loss) },
    { head: "Clients", number: true, cell: ({ measured_on }) => count(measured_on?.clients) },
    { head: "Examples", number: true, cell: ({ measured_on }) => count(measured_on?.examples) },
  ];
}

function siteColumns(models: readonly ModelVersion[], name: (model: ModelVersion) => string): Column<Site>[] {
  const cells = models.map(
    (model, place): Column<Site> => ({
      head: name(model),
      number: true,
      cell: ({ results }) => <Result result={results[place]} />,
    }),
  );
  const client: Column<Site> = {
    head: "Client",
    name: true,
    cell: ({ client, number }) => <a href={links.client(client)}>{count(number)}</a>,
  };
  return [client, ...cells];
}

/** The result of one client, or why there is none. */
function Result({ result }: { result: Assignment | undefined }) {
  if (!result) return <span class="quiet">not here</span>;
  if (result.state === "assigned") return <span class="quiet">at work</span>;
  if (result.state !== "reported") {
    return <span data-tip={result.explanation}>{(result.reason ?? result.state).replaceAll("_", " ")}</span>;
  }
  const examples = plural(result.weight ?? 0, "example");
  if (result.accuracy === undefined) return <span data-tip={examples}>{`loss ${real(result.loss)}`}</span>;
  const interval = `${percent(result.accuracy_low, 0)} to ${percent(result.accuracy_high, 0)}`;
  return (
    <span>
      {percent(result.accuracy, 1)} <small class="quiet">{`${interval}, ${examples}`}</small>
    </span>
  );
}
