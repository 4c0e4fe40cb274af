// The curves of a client, job by job.

import { useMemo } from "preact/hooks";
import type { ClientAssignment } from "../api/types";
import { LinePlot } from "../charts/line-plot";
import { type ClientCurve, clientCurves, curveInWords } from "../lib/client-curve";
import { axisReals, count, duration, plural, real, shortId } from "../lib/format";
import { links } from "../router";
import { jobName } from "../ui/names";
import { Panel } from "../ui/parts";

/** Jobs whose curves are drawn. */
const JOBS_MAX = 4;

/** Draws the training reports of a history, of which the newest come first. */
export function ClientCurves({ history }: { history: readonly ClientAssignment[] }) {
  const curves = useMemo(() => clientCurves(history).slice(0, JOBS_MAX), [history]);
  return (
    <>
      {curves.map((curve) => (
        <Curve key={curve.job} curve={curve} />
      ))}
    </>
  );
}

function Curve({ curve: { job, loss, took } }: { curve: ClientCurve }) {
  const name = jobName(job) ?? shortId(job);
  const shared = {
    xTitle: "Rounds",
    xFormat: (value: number) => count(Math.round(value)),
    xWhole: true,
    sync: `client-${job}`,
  };
  return (
    <Panel title={`In ${name}`} hint={`its reports in ${plural(took[0]!.length, "round")} of this page`}>
      <div class="plots">
        {loss.length > 0 && (
          <div>
            <LinePlot
              {...shared}
              title="Training loss"
              yTitle="Training loss"
              data={loss}
              lines={[{ label: "Training loss", colour: "--accent", format: real }]}
              yTicks={axisReals}
              yRange={[0, undefined]}
              description={`Training loss: ${curveInWords(loss, real)}`}
            />
          </div>
        )}
        <div>
          <LinePlot
            {...shared}
            title="Time"
            yTitle="Time"
            data={took}
            lines={[{ label: "Time", colour: "--blue", format: duration }]}
            yTicks={(values) => values.map(duration)}
            yRange={[0, undefined]}
            description={`Time: ${curveInWords(took, duration)}`}
          />
        </div>
      </div>
      <p>
        <a href={links.job(job)}>The curves of the job</a>
      </p>
    </Panel>
  );
}
