// The way from an empty coordinator to the first round: population, token, client, job.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { CreatedToken, Overview, Population } from "../api/types";
import { plural } from "../lib/format";
import { links } from "../router";
import { useAction } from "../ui/action";
import { useConnection, useMay } from "../ui/connection";
import { Enrolment } from "../ui/enrolment";
import { Choice, Empty, Panel, Trouble } from "../ui/parts";

/** How often the page looks for the first client, in milliseconds. */
const LOOK_MS = 3_000;

/** Whether one of the first steps is left. */
export function isNew({ populations, jobs }: Overview): boolean {
  return jobs.length === 0 || populations.every(({ clients }) => clients === 0);
}

/** A list of steps, each of which is done here. `refresh` asks for the overview again. */
export function FirstSteps({ data, refresh }: { data: Overview; refresh: () => void }) {
  const { populations, jobs } = data;
  const may = useMay("operator");
  const clients = populations.reduce((sum, population) => sum + population.clients, 0);
  // A client's enrolment is no event of the feed.
  useEffect(() => {
    const timer = setInterval(refresh, LOOK_MS);
    return () => clearInterval(timer);
  }, [refresh]);
  return (
    <Panel title="First steps" hint="from here to the first round">
      <ol class="first-steps">
        <Step
          done={populations.length > 0}
          title="Create a population"
          about="A population is the clients of one app. Tokens and jobs belong to it."
        >
          <MakePopulation onMade={refresh} />
        </Step>
        <Step
          done={clients > 0}
          title={clients > 0 ? `${plural(clients, "client")} enrolled` : "Enrol a first client"}
          about="A client enrols with a token, which its app carries."
          keep
        >
          {populations.length > 0 && <MakeToken populations={populations} />}
        </Step>
        <Step
          done={jobs.length > 0}
          title="Create a job"
          about="A job says which model is trained, how clients train it, and when a round closes."
        >
          {populations.length > 0 && may && (
            <p>
              <a class="button" href={links.newJob()}>
                New job
              </a>
            </p>
          )}
        </Step>
      </ol>
    </Panel>
  );
}

function Step(props: {
  done: boolean;
  title: string;
  about: string;
  /** Shows the content of a step that is done, too. */
  keep?: boolean;
  children: ComponentChildren;
}) {
  return (
    <li class={props.done ? "step step-done" : "step"}>
      <h3>
        {props.title}
        {props.done && <span class="quiet"> · done</span>}
      </h3>
      {!props.done && <p class="hint">{props.about}</p>}
      {(!props.done || props.keep) && props.children}
    </li>
  );
}

/** A name and a button that creates the population. */
function MakePopulation({ onMade }: { onMade: () => void }) {
  const { api } = useConnection();
  const may = useMay("admin");
  const [name, setName] = useState("shop");
  const { busy, error, run } = useAction(async () => {
    await api.json("populations", { method: "POST", body: { name } });
    onMade();
  });
  if (!may) return <Empty title="Administrators create populations">You are signed in with another role.</Empty>;
  return (
    <form class="step-form" onSubmit={run}>
      <label class="field">
        <span>Name</span>
        <input
          value={name}
          required
          maxLength={64}
          pattern="[A-Za-z0-9_.\-]+"
          title="Letters, digits, -, _ and ."
          autoComplete="off"
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="primary" disabled={busy}>
        Create population
      </button>
      {error && <Trouble error={error} />}
    </form>
  );
}

/** A button that creates an enrolment token, and then all that a client needs. The secret is shown once. */
function MakeToken({ populations }: { populations: readonly Population[] }) {
  const { api } = useConnection();
  const may = useMay("admin");
  const names = populations.map(({ name }) => name);
  const [population, setPopulation] = useState(names[0]!);
  const [created, setCreated] = useState<CreatedToken>();
  const { busy, error, run } = useAction(async () => {
    const body = { kind: "enrolment", population, label: "from the dashboard" };
    setCreated(await api.json<CreatedToken>("tokens", { method: "POST", body }));
  });
  if (!may) return <Empty title="Administrators create tokens">You are signed in with another role.</Empty>;
  if (created) return <Enrolment created={created} first />;
  return (
    <form class="step-form" onSubmit={run}>
      {names.length > 1 && <Choice label="Population" value={population} onChange={setPopulation} options={names} />}
      <button type="submit" class="primary" disabled={busy}>
        Create enrolment token
      </button>
      {error && <Trouble error={error} />}
    </form>
  );
}
