// A new job: a job file to start from, checked by the coordinator while it is edited.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/http";
import type { Job, JobDraft, LayerRow, Overview } from "../api/types";
import { RULES, withRule } from "../lib/aggregation";
import { count, plural } from "../lib/format";
import { nearest } from "../lib/nearest";
import { errorLine, fill, TEMPLATES, withName } from "../lib/templates";
import { links, useLocation } from "../router";
import { useConnection, useMay, useResource } from "../ui/connection";
import { Glyph } from "../ui/glyph";
import { Choice, Command, Empty, Panel, Trouble } from "../ui/parts";
import { type Column, Table } from "../ui/table";
import { Toml } from "./job-file";
import { TableOfJob } from "./new-job-table";

/** The file is checked when typing pauses for so long, in milliseconds. */
const TYPING_MS = 500;

type Check =
  | { state: "checking" }
  | { state: "valid"; draft: JobDraft }
  | { state: "invalid"; error: ApiError }
  | { state: "unchecked" };

/** The editor, once the populations and the file to start from are loaded. */
export function NewJobView() {
  const { query } = useLocation();
  const from = query.get("from") ?? undefined;
  const may = useMay("operator");
  const overview = useResource<Overview>("overview");
  const source = useResource<string>(from ? `jobs/${from}/file` : undefined, {}, { text: true });
  const ready = (overview.data ?? overview.error) && (!from || source.data !== undefined || source.error);
  const populations = overview.data?.populations.map(({ name }) => name) ?? [];
  return (
    <>
      <header class="view-head">
        <div>
          <p class="crumbs">
            <a href={links.overview()}>Overview</a>
          </p>
          <h1>New job</h1>
        </div>
      </header>
      {!may ? (
        <Panel title="Job file">
          <Empty title="Jobs are created by operators">You are signed in as a viewer.</Empty>
        </Panel>
      ) : overview.data && populations.length === 0 ? (
        <Panel title="Job file">
          <Empty title="A job needs a population first" command="tributary population create shop">
            Its clients belong to one. The <a href={links.overview()}>first steps</a> create it, as does this command:
          </Empty>
        </Panel>
      ) : ready ? (
        <Editor populations={populations} jobs={overview.data?.jobs.map(({ job }) => job) ?? []} source={source.data} />
      ) : (
        <Panel title="Job file">
          <div class="skeleton" aria-busy="true">
            {Array.from({ length: 14 }, (_, line) => (
              <span key={line} />
            ))}
          </div>
        </Panel>
      )}
    </>
  );
}

/** The job file as text, its check, and the button that creates the job. `source` is the file of another job. */
function Editor({
  populations,
  jobs,
  source,
}: {
  populations: string[];
  jobs: { name: string; population: string }[];
  source: string | undefined;
}) {
  const { api, notify } = useConnection();
  const [population, setPopulation] = useState(populations[0] ?? "shop");
  const taken = (name: string) => new Set(jobs.filter((job) => job.population === name).map((job) => job.name));
  const [template, setTemplate] = useState(source === undefined ? TEMPLATES[0]!.name : "");
  const [text, setText] = useState(() =>
    source === undefined
      ? fill(TEMPLATES[0]!, population, taken(population))
      : withName(source, new Set(jobs.map((job) => job.name))),
  );
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState<ApiError>();
  const check = useCheck(text);
  const area = useRef<HTMLTextAreaElement>(null);

  const start = (name: string, of: string) => {
    const chosen = TEMPLATES.find((entry) => entry.name === name);
    setTemplate(name);
    setPopulation(of);
    if (chosen) setText(fill(chosen, of, taken(of)));
    else setText(text.replace(/^population\s*=\s*"[^"]*"/m, `population = "${of}"`));
  };
  const edit = (value: string) => {
    setText(value);
    setTemplate("");
    setRefused(undefined);
  };
  const create = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setRefused(undefined);
    try {
      const job = await api.json<Job>("jobs", { method: "POST", body: text, contentType: "application/toml" });
      notify(`${job.file.name} is created`, "good");
      window.location.hash = links.job(job.id);
    } catch (error) {
      setRefused(error as ApiError);
      setBusy(false);
    }
  };
  const goTo = (line: number) => {
    const lines = text.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.current?.focus();
    area.current?.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  };

  return (
    <form class="editor" onSubmit={create}>
      <Panel title="Job file" hint="TOML, as the command line takes it">
        <div class="filters">
          <Choice
            label="Start from"
            value={template}
            onChange={(name) => start(name, population)}
            options={[
              ...TEMPLATES.map(({ name, about }) => ({ value: name, label: `${name}: ${about}` })),
              { value: "", label: "the text below" },
            ]}
          />
          <Choice
            label="Rule"
            value=""
            onChange={(name) => {
              const rule = RULES.find((entry) => entry.name === name);
              if (rule) edit(withRule(text, rule));
            }}
            options={[
              { value: "", label: "as in the text below" },
              ...RULES.map(({ name, about }) => ({ value: name, label: `${name}: ${about}` })),
            ]}
          />
          {populations.length > 0 && (
            <Choice
              label="Population"
              value={population}
              onChange={(name) => start(template, name)}
              options={populations}
            />
          )}
        </div>
        <label class="field">
          <span class="unseen">Job file as TOML</span>
          <textarea
            ref={area}
            class="code"
            spellcheck={false}
            autoCapitalize="off"
            autoComplete="off"
            rows={28}
            value={text}
            aria-describedby="check"
            aria-invalid={check.state === "invalid" ? "true" : undefined}
            onInput={(event) => edit(event.currentTarget.value)}
          />
        </label>
      </Panel>
      <div class="editor-side">
        <Panel title="Check" hint="by the coordinator, as you type">
          <div id="check" class="check" aria-live="polite" aria-busy={check.state === "checking"}>
            <CheckResult
              check={check}
              goTo={goTo}
              meant={meant(text, populations)}
              onMeant={(name) => start(template, name)}
            />
          </div>
          {refused && <Trouble error={refused} />}
          <div class="dialog-actions">
            <button type="submit" class="primary" disabled={busy || check.state === "invalid"}>
              {busy ? "Creating…" : "Create job"}
            </button>
          </div>
        </Panel>
        <TableOfJob population={population} onJob={(job) => edit(withName(job, taken(population)))} />
        <Panel title="From the command line">
          <Command text="tributary job create job.toml" />
        </Panel>
        {check.state === "valid" && check.draft.layers && <Layers rows={check.draft.layers} />}
        {check.state === "valid" && (
          <Panel title="With every default" hint="what is stored">
            <Toml text={check.draft.toml} label="The job file with every default" />
          </Panel>
        )}
      </div>
    </form>
  );
}

/** The population that a file with an unknown one probably means. */
function meant(text: string, populations: readonly string[]): string | undefined {
  const named = /^population\s*=\s*"([^"]*)"/m.exec(text)?.[1];
  return named === undefined || populations.includes(named) ? undefined : nearest(named, populations);
}

/** The layers of the model: what comes out of each for one example, and how much it learns. */
function Layers({ rows }: { rows: readonly LayerRow[] }) {
  const columns: Column<LayerRow & { index: number }>[] = [
    { head: "#", number: true, cell: ({ index }) => index },
    { head: "Layer", name: true, cell: ({ kind }) => <code>{kind}</code> },
    { head: "Output", number: true, cell: ({ output }) => output.join(" × ") },
    { head: "Parameters", number: true, cell: ({ parameters }) => count(parameters) },
  ];
  return (
    <Panel title="Layers" hint="the output of each for one example">
      <Table
        label="Layers of the model"
        columns={columns}
        rows={rows.map((row, index) => ({ ...row, index }))}
        rowKey={({ index }) => index}
      />
    </Panel>
  );
}

/** The result of the check. `goTo` selects a line of the file; `meant` is the population that it probably means. */
function CheckResult(props: {
  check: Check;
  goTo: (line: number) => void;
  meant: string | undefined;
  onMeant: (name: string) => void;
}) {
  const { check, goTo, meant, onMeant } = props;
  switch (check.state) {
    case "checking":
      return <p class="quiet">Checking…</p>;
    case "valid":
      return (
        <>
          <p class="finding">
            <Glyph state="committed" />
            Valid: a model of {plural(check.draft.parameters, "parameter")}.
          </p>
          {check.draft.remarks?.map((remark) => (
            <p key={remark} class="finding finding-bad">
              <Glyph state="warning" />
              {remark}
            </p>
          ))}
        </>
      );
    case "unchecked":
      return <p class="quiet">This coordinator checks a job file only when it is created.</p>;
    case "invalid": {
      const line = errorLine(check.error.detail);
      return (
        <>
          <p class="finding finding-bad">
            <Glyph state="abandoned" />
            {check.error.title}
          </p>
          <pre class="error-text">{check.error.detail}</pre>
          {check.error.status === 404 && meant !== undefined && (
            <p>
              Did you mean{" "}
              <button type="button" class="small" onClick={() => onMeant(meant)}>
                {meant}
              </button>
            </p>
          )}
          {line !== undefined && (
            <button type="button" class="small" onClick={() => goTo(line)}>
              Go to line {count(line)}
            </button>
          )}
        </>
      );
    }
  }
}

/** The coordinator's check of a job file, some time after the last edit. */
function useCheck(text: string): Check {
  const { api } = useConnection();
  const [check, set] = useState<Check>({ state: "checking" });
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const answer = await api.json<JobDraft>("jobs", {
          method: "POST",
          query: { dry_run: true },
          body: text,
          contentType: "application/toml",
          signal: abort.signal,
        });
        set({ state: "valid", draft: answer });
      } catch (error) {
        if (abort.signal.aborted) return;
        const problem = error instanceof ApiError ? error : new ApiError(0, "The answer does not parse", String(error));
        // A network failure says nothing about the text.
        set(
          problem.status === 0 || problem.status === 405 || problem.status === 415
            ? { state: "unchecked" }
            : { state: "invalid", error: problem },
        );
      }
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [api, text]);
  return check;
}
