-- What operators see of rounds and clients, and who did what.

-- The policy under which the round was opened, as JSON: it stays with the round when the job's changes. Null for rounds
-- that were opened before this migration.
alter table rounds add column policy text;
-- Sum of the time that clients worked for their reports, stored when the round ends.
alter table rounds add column work_ms bigint not null default 0;
-- L2 norm of the step from the base version to the result, and diversity of the updates.
alter table rounds add column step_norm double precision;
alter table rounds add column diversity double precision;

-- When the download of the model ended, when the first byte of the update came, and how long the update took.
alter table assignments add column fetched_at_ms bigint;
alter table assignments add column upload_at_ms bigint;
alter table assignments add column upload_ms bigint;
-- Cosine of the update to the mean of its round.
alter table assignments add column cosine double precision;

-- A client cannot have worked longer than it was assigned.
update rounds set work_ms = coalesce((select cast(sum(case when a.work_ms < a.ended_at_ms - a.assigned_at_ms then a.work_ms
    else a.ended_at_ms - a.assigned_at_ms end) as bigint) from assignments a where a.job = rounds.job
    and a.task = rounds.task and a.round = rounds.number and a.state = 'reported'), 0) where ended_at_ms is not null;

-- The newest assignments of all rounds: statistics of device classes are about them.
create index assignments_by_time on assignments (assigned_at_ms);
create index clients_by_last_seen on clients (population, last_seen_at_ms, number);

-- What operators changed.
create table audit (
    id text primary key,
    at_ms bigint not null,
    -- The operator token, and its label then.
    token text not null,
    label text not null,
    -- What was done, as `job.pause`.
    action text not null,
    -- To what: an id or a name.
    subject text not null,
    -- More about it; null when there is no more to say.
    detail text
);
create index audit_by_time on audit (at_ms, id);
