// The job file, with the changes made since the job was created.

import type { Job } from "../api/types";
import { save } from "../lib/download";
import { endsSomething } from "../lib/events";
import { tokens } from "../lib/toml";
import { links } from "../router";
import { useConnection, useMay, useResource } from "../ui/connection";
import { NotAvailable, Panel, Pending } from "../ui/parts";

/** TOML in colours. `label` names it for screen readers. */
export function Toml({ text, label }: { text: string; label: string }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: the text itself scrolls, a section around it would not
    <pre class="code" tabIndex={0} role="region" aria-label={label}>
      <code>
        {tokens(text).map((token, index) =>
          token.kind === "plain" ? (
            token.text
          ) : (
            <span key={index} class={`tok-${token.kind}`}>
              {token.text}
            </span>
          ),
        )}
      </code>
    </pre>
  );
}

/** The file of a job, to copy, download, or begin a new job with. */
export function JobFileView({ job }: { job: Job }) {
  const may = useMay("operator");
  const { notify } = useConnection();
  const file = useResource<string>(`jobs/${job.id}/file`, {}, { text: true, live: endsSomething(job.id) });
  const { data } = file;
  const copy = () =>
    navigator.clipboard.writeText(data ?? "").then(
      () => notify("Copied"),
      () => notify("The browser does not let this page copy", "bad"),
    );
  const actions = data !== undefined && (
    <>
      <button type="button" class="small" onClick={copy}>
        Copy
      </button>
      <button
        type="button"
        class="small"
        onClick={() => save(new Blob([data], { type: "application/toml" }), `${job.file.name}.toml`)}
      >
        Download
      </button>
      {may && (
        <a class="button small" href={`${links.newJob()}?from=${job.id}`}>
          New job from this file
        </a>
      )}
    </>
  );
  return (
    <Panel
      title="Job file"
      actions={actions}
      hint={
        <>
          plan <code data-tip={job.plan_hash}>{job.plan_hash.slice(0, 16)}…</code>
        </>
      }
    >
      {data !== undefined ? (
        <Toml text={data} label="Text of the job file" />
      ) : (
        <Pending resource={file} lines={14} missing={<NotAvailable what="The text of the job file" />} />
      )}
    </Panel>
  );
}
