// The model versions of a job, newest first, each to download.

import { useState } from "preact/hooks";
import type { Job, ModelVersion, Page } from "../api/types";
import { download } from "../lib/download";
import { bytes, count, UNKNOWN } from "../lib/format";
import { links } from "../router";
import { useConnection, useResource } from "../ui/connection";
import { Ago, Empty, Panel, Pending } from "../ui/parts";
import { type Column, Table } from "../ui/table";
import { endsSomething } from "./job";
import { UploadModel } from "./upload-model";

const PAGE = 50;

/** The model versions of a job as pages. */
export function JobModels({ job }: { job: Job }) {
  // The API lists versions from the oldest on. A page that ends at version `to` is requested by its first version.
  const newest = job.model_version ?? 0;
  const [end, setEnd] = useState<number>();
  const to = end ?? newest;
  const from = Math.max(0, to - PAGE + 1);
  const query = { limit: to - from + 1, ...(from > 0 ? { after: from } : {}) };
  const models = useResource<Page<ModelVersion>>(`jobs/${job.id}/models`, query, { live: endsSomething(job.id) });
  const rows = [...(models.data?.items ?? [])].filter(({ version }) => version >= from && version <= to).reverse();
  return (
    <Panel title="Models" hint="safetensors files with PyTorch's names and layout">
      {models.data ? (
        <>
          <Table
            label="Model versions"
            columns={columnsOf(job)}
            rows={rows}
            rowKey={(model) => model.version}
            // On the newest page each new version changes the query; the rows stay right meanwhile.
            stale={models.stale && end !== undefined}
            empty={
              job.state === "awaiting_model" ? (
                <UploadModel job={job.id} name={job.file.name} />
              ) : (
                <Empty title="No model yet" />
              )
            }
          />
          {newest >= PAGE && (
            <nav class="pager" aria-label="Pages">
              <span>
                Versions {count(from)} to {count(to)} of {count(newest)}
              </span>
              <span class="pager-buttons">
                <button type="button" class="small" disabled={end === undefined} onClick={() => setEnd(undefined)}>
                  Newest
                </button>
                <button
                  type="button"
                  class="small"
                  disabled={to >= newest}
                  onClick={() => setEnd(to + PAGE >= newest ? undefined : to + PAGE)}
                >
                  Newer
                </button>
                <button type="button" class="small" disabled={from === 0} onClick={() => setEnd(from - 1)}>
                  Older
                </button>
              </span>
            </nav>
          )}
        </>
      ) : (
        <Pending resource={models} lines={8} what="The list of models" />
      )}
    </Panel>
  );
}

function columnsOf(job: Job): Column<ModelVersion>[] {
  return [
    { head: "Version", name: true, cell: (model) => count(model.version) },
    {
      head: "Round",
      number: true,
      cell: (model) =>
        model.round === undefined ? UNKNOWN : <a href={links.round(job.id, model.round)}>{count(model.round)}</a>,
    },
    { head: "Size", number: true, cell: (model) => bytes(model.bytes) },
    { head: "SHA-256", wide: true, cell: (model) => <code title={model.sha256}>{model.sha256.slice(0, 16)}…</code> },
    { head: "Stored", number: true, wide: true, cell: (model) => <Ago at={model.created_at_ms} /> },
    { head: "File", cell: (model) => <Get job={job} model={model} /> },
  ];
}

/** The button that downloads a version, or when its file was deleted. */
function Get({ job, model }: { job: Job; model: ModelVersion }) {
  const { api, notify } = useConnection();
  const [busy, setBusy] = useState(false);
  if (model.deleted_at_ms !== undefined)
    return (
      <span class="quiet">
        deleted <Ago at={model.deleted_at_ms} />
      </span>
    );
  const get = async () => {
    setBusy(true);
    try {
      await download(api, `jobs/${job.id}/models/${model.version}`, `${job.file.name}-${model.version}.safetensors`);
    } catch (error) {
      notify((error as Error).message, "bad");
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" class="small" disabled={busy} onClick={get} aria-label={`Download version ${model.version}`}>
      Download
    </button>
  );
}
