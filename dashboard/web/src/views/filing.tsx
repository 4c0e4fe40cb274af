// How a job is filed: its name, tags and notes.

import { useState } from "preact/hooks";
import type { Job } from "../api/types";
import { useAction } from "../ui/action";
import { useConnection } from "../ui/connection";
import { Dialog, Trouble } from "../ui/parts";

/** A dialog with name, tags and notes of a job. The coordinator checks them. */
export function FilingDialog({ job, onClose, onSaved }: { job: Job; onClose: () => void; onSaved: () => void }) {
  const { api, notify } = useConnection();
  const [name, setName] = useState<string>(job.file.name);
  const [tags, setTags] = useState((job.tags ?? []).join(" "));
  const [notes, setNotes] = useState(job.notes ?? "");
  const { busy, error, run } = useAction(async () => {
    const change = { name: name.trim(), tags: tags.split(/[\s,]+/).filter(Boolean), notes: notes.trim() };
    await api.json(`jobs/${job.id}`, { method: "PATCH", body: change });
    notify(`${change.name} is saved`, "good");
    onSaved();
    onClose();
  });
  return (
    <Dialog title={`Edit ${job.file.name}`} onClose={onClose}>
      <form class="filing" onSubmit={run}>
        <label class="field">
          <span class="field-label">Name</span>
          <input value={name} required maxLength={64} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span class="field-label">Tags</span>
          <input value={tags} placeholder="baseline paper" onInput={(event) => setTags(event.currentTarget.value)} />
          <span class="field-hint">letters, digits, dots, dashes and underscores; spaces between tags</span>
        </label>
        <label class="field">
          <span class="field-label">Notes</span>
          <textarea rows={5} value={notes} onInput={(event) => setNotes(event.currentTarget.value)} />
        </label>
        {error && <Trouble error={error} />}
        <div class="dialog-actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy}>
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}
