-- Buffered jobs: clients are drawn one by one, an assignment has a deadline of its own, and one that is open when its
-- round closes moves on to the next round. A client may work several times for one version.

-- Clients drawn one by one so far; a draw is conditional on it.
alter table rounds add column drawn bigint not null default 0;
-- Sum of the staleness of the accepted updates, and the weight (in examples) that staleness took from them.
alter table rounds add column staleness bigint not null default 0;
alter table rounds add column lost_weight double precision not null default 0;

-- The key of an assignment is its id. SQLite cannot drop the former key (job, task, round, client), so the table is
-- written again.
create table assignments_next (
    id text primary key,
    job text not null,
    task text not null,
    -- The round in which it counts; of an open assignment, the round that is open now.
    round bigint not null,
    client text not null references clients (id),
    state text not null check (state in ('assigned', 'reported', 'rejected', 'failed', 'expired')),
    -- Why it was rejected or failed, or expired before its time.
    reason text,
    assigned_at_ms bigint not null,
    ended_at_ms bigint,
    -- When a straggler came back with its late work.
    late_at_ms bigint,
    weight bigint,
    loss double precision,
    accuracy double precision,
    steps bigint,
    work_ms bigint,
    -- L2 norm of the update.
    update_norm double precision,
    -- Hash of the accepted report: the same bytes again get the same answer.
    report_sha256 text,
    bytes_up bigint not null default 0,
    bytes_down bigint not null default 0,
    raw_bytes_up bigint not null default 0,
    raw_bytes_down bigint not null default 0,
    fetched_at_ms bigint,
    upload_at_ms bigint,
    upload_ms bigint,
    cosine double precision,
    base_version bigint not null default 0 check (base_version >= 0),
    attempts bigint not null default 0 check (attempts >= 0),
    stopped_at_ms bigint,
    metrics text,
    -- When it expires; null: when its round closes.
    deadline_at_ms bigint,
    -- Seed of what is random in it; 0: it follows from the seed of its round.
    seed bigint not null default 0,
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);

insert into assignments_next (id, job, task, round, client, state, reason, assigned_at_ms, ended_at_ms, late_at_ms, weight,
    loss, accuracy, steps, work_ms, update_norm, report_sha256, bytes_up, bytes_down, raw_bytes_up, raw_bytes_down,
    fetched_at_ms, upload_at_ms, upload_ms, cosine, base_version, attempts, stopped_at_ms, metrics)
select id, job, task, round, client, state, reason, assigned_at_ms, ended_at_ms, late_at_ms, weight,
    loss, accuracy, steps, work_ms, update_norm, report_sha256, bytes_up, bytes_down, raw_bytes_up, raw_bytes_down,
    fetched_at_ms, upload_at_ms, upload_ms, cosine, base_version, attempts, stopped_at_ms, metrics
from assignments;

drop table assignments;
alter table assignments_next rename to assignments;

-- A cohort has each client once: its assignments have no seeds of their own.
create unique index assignments_of_round on assignments (job, task, round, client, seed);
create unique index assignments_open on assignments (client) where state = 'assigned';
create index assignments_of_client on assignments (client, job, round);
create index assignments_working on assignments (job) where state = 'assigned';
create index assignments_by_time on assignments (assigned_at_ms);
