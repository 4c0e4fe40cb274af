// A job file from the columns of a table, which stays in the browser.

import { useId, useState } from "preact/hooks";
import { plural } from "../lib/format";
import { type Goal, goalOf, headOf, jobOf, type TableHead } from "../lib/table-file";
import { Choice, Panel } from "../ui/parts";

/** `onJob` gets the job file of the table for a population, as TOML. */
export function TableOfJob({ population, onJob }: { population: string; onJob: (text: string) => void }) {
  const [read, setRead] = useState<{ file: string; table: TableHead; target: string; goal: Goal }>();
  const [trouble, setTrouble] = useState<string>();
  const id = useId();

  const write = (file: string, table: TableHead, target: string, goal: Goal) => {
    setRead({ file, table, target, goal });
    onJob(jobOf(file, table, target, goal, population));
  };
  const attempt = async (work: () => void | Promise<void>) => {
    setTrouble(undefined);
    try {
      await work();
    } catch (error) {
      setTrouble((error as Error).message);
    }
  };
  const open = (file: File) =>
    attempt(async () => {
      setRead(undefined);
      const table = await headOf(file);
      const last = table.columns.at(-1)!;
      write(file.name, table, last.name, goalOf(last));
    });
  const targetIs = ({ file, table }: { file: string; table: TableHead }, name: string) =>
    attempt(() => write(file, table, name, goalOf(table.columns.find((column) => column.name === name)!)));

  return (
    <Panel title="From a table" hint="it stays in this browser">
      <div class="upload">
        <label for={id}>CSV file of one client</label>
        <input
          id={id}
          type="file"
          accept=".csv,.tsv,.txt,text/csv"
          onChange={({ currentTarget: { files } }) => files?.[0] && open(files[0])}
        />
        {read && (
          <p class="hint">
            {read.table.isCut ? "The first " : ""}
            {plural(read.table.rows, "example")} of {plural(read.table.columns.length, "column")}. Texts that only other
            clients have are to be added to the file.
          </p>
        )}
      </div>
      {trouble !== undefined && (
        <p class="finding finding-bad" role="alert">
          {trouble}
        </p>
      )}
      {read && (
        <div class="filters">
          <Choice
            label="Target"
            value={read.target}
            onChange={(name) => targetIs(read, name)}
            options={read.table.columns.map(({ name }) => name)}
          />
          <Choice
            label="It is"
            value={read.goal}
            onChange={(goal) => attempt(() => write(read.file, read.table, read.target, goal as Goal))}
            options={[
              { value: "classes", label: "one of several classes" },
              { value: "number", label: "a number to be predicted" },
            ]}
          />
        </div>
      )}
    </Panel>
  );
}
