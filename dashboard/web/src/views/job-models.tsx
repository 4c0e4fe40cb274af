// The model versions of a job, newest first, each to download.

import { useState } from "preact/hooks";
import type { Job, ModelVersion, Page } from "../api/types";
import { cardOf, withCard } from "../lib/card";
import { download, fetched, type ModelForm, modelFileName, save } from "../lib/download";
import { endsSomething } from "../lib/events";
import { briefly, bytes, count, percent, real, UNKNOWN } from "../lib/format";
import { programOf, waysOf } from "../lib/use-model";
import { links } from "../router";
import { useConnection, useMay, useResource } from "../ui/connection";
import { Glyph } from "../ui/glyph";
import { Measured } from "../ui/measured";
import { useNarrow } from "../ui/narrow";
import { Ago, Command, Empty, Panel, Pending, Segmented, When } from "../ui/parts";
import { type Column, Table } from "../ui/table";
import { UploadModel } from "./upload-model";

const PAGE = 50;

const FORMS = [
  { value: "f32", label: "f32", title: "the model itself, 32-bit values; says what it is" },
  { value: "f16", label: "f16", title: "rounded to half precision: half the size" },
] as const;

/** The model versions of a job as pages. */
export function JobModels({ job }: { job: Job }) {
  // The API lists versions from the oldest on. A page that ends at version `to` is requested by its first version.
  const newest = job.model_version ?? 0;
  const [end, setEnd] = useState<number>();
  const narrow = useNarrow();
  const [form, setForm] = useState<ModelForm>("f32");
  const to = end ?? newest;
  const from = Math.max(0, to - PAGE + 1);
  const query = { limit: to - from + 1, ...(from > 0 ? { after: from } : {}) };
  const models = useResource<Page<ModelVersion>>(`jobs/${job.id}/models`, query, { live: endsSomething(job.id) });
  const rows = [...(models.data?.items ?? [])].filter(({ version }) => version >= from && version <= to).reverse();
  return (
    <Panel
      title="Models"
      hint="safetensors files with PyTorch's names and layout; retention never deletes a pinned version"
      actions={<Segmented label="Form of the downloaded file" value={form} onChange={setForm} options={FORMS} />}
    >
      {models.data ? (
        <>
          <Table
            label="Model versions"
            class={narrow ? "phone-rows" : ""}
            columns={narrow ? phoneColumns(job, form, models.refresh) : columnsOf(job, form, models.refresh)}
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
      {job.model_version !== undefined && <UseModel job={job} />}
    </Panel>
  );
}

function columnsOf(job: Job, form: ModelForm, changed: () => void): Column<ModelVersion>[] {
  return [
    { head: "Version", name: true, cell: (model) => <Version job={job} model={model} /> },
    {
      head: "Round",
      number: true,
      wide: true,
      cell: (model) =>
        model.round === undefined ? UNKNOWN : <a href={links.round(job.id, model.round)}>{count(model.round)}</a>,
    },
    {
      head: "Accuracy",
      number: true,
      cell: (model) => <Measured accuracy={model.accuracy} on={model.measured_on} />,
    },
    { head: "Loss", number: true, wide: true, cell: (model) => real(model.loss) },
    { head: "Size", number: true, wide: true, cell: (model) => bytes(model.bytes) },
    { head: "SHA-256", wide: true, cell: (model) => <code data-tip={model.sha256}>{model.sha256.slice(0, 16)}…</code> },
    { head: "Stored", zoned: true, number: true, wide: true, cell: (model) => <When at={model.created_at_ms} /> },
    { head: "File", cell: (model) => <Get job={job} model={model} form={form} /> },
    { head: "Pin", cell: (model) => <Pin job={job} model={model} changed={changed} /> },
  ];
}

/** Two lines per version: number and badges; accuracy and age. */
function phoneColumns(job: Job, form: ModelForm, changed: () => void): Column<ModelVersion>[] {
  return [
    {
      head: "Version",
      name: true,
      cell: (model) => (
        <span class="two-lines">
          <Version job={job} model={model} />
          <small class="quiet">
            {model.accuracy === undefined ? "" : `${percent(model.accuracy, 2)} (${briefly(model.measured_on)}), `}
            <Ago at={model.created_at_ms} />
          </small>
        </span>
      ),
    },
    { head: "File", number: true, cell: (model) => <Get job={job} model={model} form={form} /> },
    { head: "Pin", number: true, cell: (model) => <Pin job={job} model={model} changed={changed} /> },
  ];
}

/** The number of a version, and what is special about it. */
function Version({ job, model }: { job: Job; model: ModelVersion }) {
  return (
    <span class="version">
      {count(model.version)}
      {model.version === job.model_version && <span class="badge">newest</span>}
      {model.best && <span class="badge badge-best">best</span>}
    </span>
  );
}

/** The button that pins a version, which retention then keeps. */
function Pin({ job, model, changed }: { job: Job; model: ModelVersion; changed: () => void }) {
  const { api, notify } = useConnection();
  const may = useMay("operator");
  const [busy, setBusy] = useState(false);
  const pinned = model.pinned_at_ms !== undefined;
  if (model.deleted_at_ms !== undefined) return null;
  if (!may) return <>{pinned ? "pinned" : ""}</>;
  const toggle = async () => {
    setBusy(true);
    try {
      await api.json(`jobs/${job.id}/models/${model.version}/pin`, { method: pinned ? "DELETE" : "PUT" });
      changed();
    } catch (error) {
      notify((error as Error).message, "bad");
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      type="button"
      class={`small ${pinned ? "pressed" : ""}`}
      aria-pressed={pinned}
      aria-label={`Pin version ${model.version}`}
      data-tip={
        pinned
          ? "retention keeps this version; press to unpin it"
          : "keeps this version from being deleted by retention"
      }
      disabled={busy}
      onClick={toggle}
    >
      {pinned && <Glyph state="completed" />}
      Pin
    </button>
  );
}

/** Whole programs that use a version, to copy. */
function UseModel({ job }: { job: Job }) {
  const ways = waysOf(job);
  const [chosen, setWay] = useState(ways[0]!.value);
  const way = ways.some(({ value }) => value === chosen) ? chosen : ways[0]!.value;
  return (
    <div class="snippet">
      <h3>Use this model</h3>
      <p class="hint">
        {"layers" in job.file.model
          ? "The f32 file says its layers, columns and classes: it is all that a prediction needs."
          : "The network is part of the app, and the file has its parameters."}{" "}
        The best version from the command line: <code>tributary job export {job.file.name} --best</code>
      </p>
      {job.file.model.license && <p class="hint">License: {job.file.model.license}</p>}
      <Segmented label="How to use this model" value={way} onChange={setWay} options={ways} />
      <Command text={programOf(job, way)} />
    </div>
  );
}

/** The button that downloads a version, or when its file was deleted. */
function Get({ job, model, form }: { job: Job; model: ModelVersion; form: ModelForm }) {
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
      const name = modelFileName(job.file.name, model.version, form);
      const path = `jobs/${job.id}/models/${model.version}`;
      if (form !== "f32") await download(api, path, name, { form });
      else save(await withCard(await fetched(api, path, { form }), cardOf(job, model)), name);
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
