// The buffer of a buffered job: clients in flight, how full it is, how stale its updates are, the weight that costs.
// Of a stale-synchronous job: the clocks of its members. Of both: who is always stale.

import type { MemberClock, RoundDetail, StaleClient } from "../api/types";
import { endsSomething } from "../lib/events";
import { count, percent, plural, real } from "../lib/format";
import { links } from "../router";
import { useResource } from "../ui/connection";
import { Panel, Stat, Stats } from "../ui/parts";

/** The buffer of a round; nothing for a round with a cohort. */
export function BufferPanel({ job, data }: { job: string; data: RoundDetail }) {
  const { round, staleness = [] } = data;
  const { buffer } = round;
  if (!buffer) return null;
  if (buffer.slack !== undefined) return <ClocksPanel job={job} data={data} slack={buffer.slack} />;
  const most = Math.max(1, ...staleness.map(({ updates }) => updates));
  return (
    <Panel title="Buffer" hint="clients are drawn one by one; a full buffer makes a version">
      <Stats>
        <Stat label="In the buffer" value={count(round.reported)} detail={`of ${count(round.goal)}`} />
        <Stat label="At work" value={count(round.assigned)} detail={`at most ${count(buffer.concurrency)}`} />
        <Stat
          label="Staleness"
          value={real(buffer.staleness_mean)}
          detail={buffer.staleness_max == null ? "versions" : `versions, at most ${count(buffer.staleness_max)}`}
        />
        <Stat
          label="Weight lost"
          value={round.weight > 0 ? percent(buffer.lost_weight / round.weight) : "–"}
          detail="to staleness"
        />
      </Stats>
      {staleness.length > 0 && (
        <table class="table staleness">
          <caption class="quiet">Updates of this round and the 19 before it, by the versions they were behind</caption>
          <tbody>
            {staleness.map(({ staleness: behind, updates }) => (
              <tr key={behind}>
                <th scope="row">{plural(behind, "version")}</th>
                <td class="staleness-bar">
                  <svg viewBox="0 0 100 6" height="6" width="100%" preserveAspectRatio="none" aria-hidden="true">
                    <rect class="fill-reported" width={(updates / most) * 100} height="6" />
                  </svg>
                </td>
                <td>{plural(updates, "update")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <StaleClients job={job} />
    </Panel>
  );
}

/** Who is always stale, and what it costs: the stalest clients of the job. Nothing while nobody is. */
function StaleClients({ job }: { job: string }) {
  const stale = useResource<StaleClient[]>(`jobs/${job}/stale-clients`, {}, { live: endsSomething(job) });
  const clients = stale.data ?? [];
  if (clients.length === 0) return null;
  return (
    <table class="table stale-clients">
      <caption class="quiet">The stalest clients of the newest 20,000 updates</caption>
      <thead>
        <tr>
          <th scope="col">client</th>
          <th scope="col">updates</th>
          <th scope="col">versions behind</th>
          <th scope="col">largest</th>
          <th scope="col">weight lost</th>
        </tr>
      </thead>
      <tbody>
        {clients.map((client) => (
          <tr key={client.client_number}>
            <th scope="row">
              <a href={links.client(client.client)}>client {client.client_number}</a>
            </th>
            <td>{count(client.updates)}</td>
            <td>{real(client.staleness_mean)}</td>
            <td>{count(client.staleness_max)}</td>
            <td>{percent(client.lost_weight / Math.max(1, client.examples))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The members of a stale-synchronous job, slowest first, as far as each has come. */
function ClocksPanel({ job, data, slack }: { job: string; data: RoundDetail; slack: number }) {
  const { round, clocks = [] } = data;
  const slowest = Math.min(...clocks.map(({ clock }) => clock));
  const ahead = clocks.map((member) => ({ ...member, ahead: member.clock - slowest }));
  ahead.sort((one, other) => one.ahead - other.ahead || one.client_number - other.client_number);
  return (
    <Panel title="Clocks" hint={`who is more than ${plural(slack, "update")} ahead of the slowest member waits`}>
      <Stats>
        <Stat label="In the sum" value={count(round.reported)} detail="one per member closes it" />
        <Stat label="Members" value={count(clocks.length)} detail={`at most ${count(round.goal)}`} />
        <Stat
          label="Waiting"
          value={count(ahead.filter((member) => !member.is_working && member.ahead > slack).length)}
          detail="for the slowest"
        />
        <Stat label="Staleness" value={real(round.buffer?.staleness_mean)} detail="versions" />
      </Stats>
      {ahead.length > 0 && (
        <table class="table staleness">
          <caption class="quiet">Updates that each member is ahead of the slowest</caption>
          <tbody>
            {ahead.slice(0, CLOCKS_SHOWN).map((member) => (
              <tr key={member.client_number}>
                <th scope="row">client {member.client_number}</th>
                <td class="staleness-bar">
                  <svg viewBox="0 0 100 6" height="6" width="100%" preserveAspectRatio="none" aria-hidden="true">
                    <rect class="fill-reported" width={(member.ahead / (slack + 1)) * 100} height="6" />
                  </svg>
                </td>
                <td>
                  {plural(member.clock, "update")}, {presence(member, slack)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <StaleClients job={job} />
    </Panel>
  );
}

/** Rows of the panel: the slowest members say what the others wait for. */
const CLOCKS_SHOWN = 20;

function presence(member: MemberClock & { ahead: number }, slack: number): string {
  if (member.is_working) return "at work";
  if (member.ahead > slack) return "waits for the slowest";
  return member.missed_at_ms === undefined ? "begins next" : "is missed";
}
