// Changes the round policy of a job.

import { useState } from "preact/hooks";
import type { ApiError } from "../api/http";
import type { Job, RoundPolicy } from "../api/types";
import { plural } from "../lib/format";
import { changes, cohortSize, fieldsOf, isStreamed, read, typed } from "../lib/policy";
import { useConnection } from "../ui/connection";
import { Dialog, Trouble } from "../ui/parts";

/** A form with the fields of the policy. It sends those that differ; they apply from the next round on. */
export function PolicyDialog({
  job,
  suggested = {},
  onClose,
  onSaved,
}: {
  job: Job;
  /** Values that the form begins with in place of the present ones. */
  suggested?: Partial<RoundPolicy>;
  onClose: () => void;
  onSaved: () => void;
}) {
  const { api, notify } = useConnection();
  const before = job.file.round;
  const fields = fieldsOf(before);
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries(fields.map((field) => [field.key, typed(field, { ...before, ...suggested })])),
  );
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);

  const results = fields.map((field) => ({ field, result: read(field, texts[field.key] ?? "") }));
  const valid = results.every(({ result }) => "value" in result);
  const after = Object.fromEntries(
    results.flatMap(({ field, result }) => ("value" in result ? [[field.key, result.value]] : [])),
  ) as Partial<RoundPolicy>;
  const changed = changes(before, after);
  const amount = Object.keys(changed).length;
  const cohort = cohortSize(after.updates_goal ?? before.updates_goal, after.over_selection ?? before.over_selection);

  const save = async (event: Event) => {
    event.preventDefault();
    if (!valid || amount === 0) return;
    setBusy(true);
    setError(undefined);
    try {
      await api.json(`jobs/${job.id}/round-policy`, { method: "PATCH", body: changed });
      notify(`The round policy of ${job.file.name} applies from the next round on`, "good");
      onSaved();
      onClose();
    } catch (problem) {
      setError(problem as ApiError);
      setBusy(false);
    }
  };

  return (
    <Dialog title="Round policy" onClose={onClose} wide>
      <form onSubmit={save} noValidate>
        <p class="hint">
          Applies from the next round on; the open one keeps its rules.
          {isStreamed(before.mode) ? "" : ` Full cohort: ${plural(cohort, "client")}.`}
        </p>
        <div class="form-grid">
          {results.map(({ field, result }) => {
            const wrong = "error" in result ? result.error : undefined;
            const different = field.key in changed;
            return (
              <label key={field.key} class={`field ${different ? "changed" : ""} ${wrong ? "wrong" : ""}`}>
                <span class="field-label">
                  {field.label}
                  {different && <em> was {typed(field, before)}</em>}
                </span>
                <input
                  type="text"
                  inputMode={field.unit === "duration" ? "text" : "decimal"}
                  name={field.key}
                  value={texts[field.key]}
                  aria-invalid={wrong ? "true" : undefined}
                  aria-describedby={`hint-${field.key}`}
                  onInput={(event) => setTexts({ ...texts, [field.key]: event.currentTarget.value })}
                  autoComplete="off"
                />
                <span class="field-hint" id={`hint-${field.key}`}>
                  {wrong ?? field.hint}
                </span>
              </label>
            );
          })}
        </div>
        {error && <Trouble error={error} />}
        <div class="dialog-actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy || !valid || amount === 0}>
            {amount === 0 ? "Nothing changed" : `Change ${plural(amount, "setting")}`}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
