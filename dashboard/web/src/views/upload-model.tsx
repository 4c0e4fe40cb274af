// Version 0 of a job whose file says `initial_model = "upload"`.

import { useId, useState } from "preact/hooks";
import type { ApiError } from "../api/http";
import { bytes } from "../lib/format";
import { useConnection, useMay } from "../ui/connection";
import { Command, Empty, Trouble } from "../ui/parts";

/** A file input that uploads version 0, and the command that does the same. `name` is the job's. */
export function UploadModel({ job, name }: { job: string; name: string }) {
  const { api, notify } = useConnection();
  const [busy, setBusy] = useState<string>();
  const [error, setError] = useState<ApiError>();
  const id = useId();
  const may = useMay("operator");
  const upload = async (file: File | undefined) => {
    if (!file) return;
    setBusy(`Sending ${bytes(file.size)}…`);
    setError(undefined);
    try {
      await api.send(`jobs/${job}/models/0`, { method: "PUT", body: file, contentType: "application/octet-stream" });
      notify(`${name} has its first model`, "good");
    } catch (problem) {
      setError(problem as ApiError);
    } finally {
      setBusy(undefined);
    }
  };
  if (!may) return <Empty title="Waits for its first model">An operator uploads it.</Empty>;
  const address = new URL(`operator/v1/jobs/${job}/models/0`, document.baseURI).href.split("#")[0];
  return (
    <div class="upload">
      <p class="empty-title">Waits for its first model</p>
      <label for={id}>Version 0 as a safetensors file with the job's parameters:</label>
      <input
        id={id}
        type="file"
        accept=".safetensors"
        disabled={busy !== undefined}
        onChange={(event) => upload(event.currentTarget.files?.[0])}
      />
      <p class="hint" aria-live="polite">
        {busy ?? "Or from the command line:"}
      </p>
      <Command
        text={`curl --fail-with-body -T model.safetensors -H "authorization: Bearer $TRIBUTARY_TOKEN" ${address}`}
      />
      {error && <Trouble error={error} />}
    </div>
  );
}
