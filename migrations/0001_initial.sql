-- One schema for SQLite and PostgreSQL. Times are milliseconds since 1970 (UTC); ids are their text form; a missing value
-- is null. A released migration is never edited.

create table populations (
    name text primary key,
    -- Clients enrolled so far: the next one's number less one.
    clients bigint not null default 0,
    created_at_ms bigint not null
);

create table tokens (
    id text primary key,
    -- Whose clients it enrols; null for an operator token.
    population text references populations (name),
    label text not null,
    -- Hex SHA-256 of the credential: 32 random bytes need no slower hash.
    secret_sha256 text not null unique,
    created_at_ms bigint not null,
    expires_at_ms bigint,
    revoked_at_ms bigint
);

create table clients (
    id text primary key,
    population text not null references populations (name),
    -- 1, 2, ... in the order of enrolment; cohorts are drawn by it.
    number bigint not null,
    -- The enrolment token that let it in.
    token text not null references tokens (id),
    secret_sha256 text not null unique,
    -- JSON object of strings, as told at the last check-in that changed it.
    attributes text not null,
    -- Examples held, as told at the last check-in that changed it.
    examples bigint not null,
    created_at_ms bigint not null,
    -- Kept to the minute: writing it at every check-in would cost more than the check-in.
    last_seen_at_ms bigint not null,
    unique (population, number)
);

create table jobs (
    id text primary key,
    population text not null references populations (name),
    name text not null,
    -- The job file as JSON, with the seed filled in.
    file text not null,
    -- Numbers of the model.
    parameters bigint not null,
    state text not null check (state in ('awaiting_model', 'running', 'paused', 'stopped', 'completed')),
    -- Newest version; null before version 0.
    model_version bigint,
    rounds_opened bigint not null default 0,
    rounds_committed bigint not null default 0,
    -- Training rounds abandoned since the last committed one: the back-off depends on it.
    abandoned_in_a_row bigint not null default 0,
    -- When the last training round ended.
    round_ended_at_ms bigint,
    -- Number of the last committed training round.
    committed_round bigint,
    -- Sequence number of the job's last event.
    events bigint not null default 0,
    created_at_ms bigint not null,
    ended_at_ms bigint,
    unique (population, name)
);

create table models (
    job text not null references jobs (id) on delete cascade,
    version bigint not null,
    -- The training round that made it; null for version 0.
    round bigint,
    sha256 text not null,
    -- Size of the safetensors file, which is in blob_chunks or in the store.
    bytes bigint not null,
    created_at_ms bigint not null,
    -- When the job's retention let its file be deleted; the row stays.
    deleted_at_ms bigint,
    primary key (job, version)
);

create table rounds (
    job text not null references jobs (id) on delete cascade,
    task text not null check (task in ('train', 'evaluate')),
    -- 1, 2, ... in the job; an evaluation has the number of the round whose model it measures.
    number bigint not null,
    phase text not null check (phase in ('selecting', 'training', 'aggregating', 'committed', 'abandoned')),
    -- Why it was abandoned.
    reason text,
    base_version bigint not null,
    seed bigint not null,
    goal bigint not null,
    minimum bigint not null,
    opened_at_ms bigint not null,
    selected_at_ms bigint,
    deadline_at_ms bigint,
    -- When it took its last report (Aggregating began).
    closed_at_ms bigint,
    ended_at_ms bigint,
    -- The cohort by state of its assignments; those that still work are what is left of it.
    cohort bigint not null default 0,
    reported bigint not null default 0,
    rejected bigint not null default 0,
    failed bigint not null default 0,
    expired bigint not null default 0,
    -- Sum of the reported weights.
    weight bigint not null default 0,
    -- Weighted means: training loss of its own updates; loss and accuracy from the evaluation of its model.
    training_loss double precision,
    loss double precision,
    accuracy double precision,
    bytes_up bigint not null default 0,
    bytes_down bigint not null default 0,
    -- When the job's retention let its assignments be deleted; the row stays.
    pruned_at_ms bigint,
    primary key (job, task, number)
);

-- The driver asks for these at every step.
create index rounds_open on rounds (job) where phase in ('selecting', 'training', 'aggregating');

create table assignments (
    id text primary key,
    job text not null,
    task text not null,
    round bigint not null,
    client text not null references clients (id),
    state text not null check (state in ('assigned', 'reported', 'rejected', 'failed', 'expired')),
    -- Why it was rejected or failed.
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
    unique (job, task, round, client),
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);

-- A client has one assignment at a time, whoever hands them out.
create unique index assignments_open on assignments (client) where state = 'assigned';
create index assignments_of_client on assignments (client, job, round);
create index assignments_working on assignments (job) where state = 'assigned';

-- Bodies of models and updates in parts of at most 1 MiB, so that neither database ever holds a large value in memory.
-- `blob` is `model/<job>/<version>` or `update/<assignment>`.
create table blob_chunks (
    blob text not null,
    part bigint not null,
    data bytea not null,
    primary key (blob, part)
);

-- Bodies that are in an object store instead, and where there.
create table objects (
    -- As in blob_chunks.
    blob text primary key,
    -- Key in the store, below the deployment's id: one per attempt, so that none is ever overwritten.
    object text not null unique,
    bytes bigint not null
);

-- One row: the id that tells this database's objects from others' in the same store.
create table deployment (
    one bigint primary key check (one = 1),
    id text not null
);

-- What happened, in order: every transition with its time and cause.
create table events (
    job text not null references jobs (id) on delete cascade,
    sequence bigint not null,
    at_ms bigint not null,
    task text,
    round bigint,
    assignment text,
    became text not null,
    cause text,
    primary key (job, sequence)
);

-- Coordinators that share this database.
create table nodes (
    id text primary key,
    version text not null,
    started_at_ms bigint not null,
    -- Renewed with its leases; a node that has not been seen for a lease's length is gone.
    seen_at_ms bigint not null
);

-- Who drives a job, until when. Two drivers do no harm (every step is a conditional update); the lease saves their work.
create table leases (
    job text primary key references jobs (id) on delete cascade,
    node text not null,
    -- Rises by one with each change of hands.
    token bigint not null,
    expires_at_ms bigint not null
);

-- Clients that are held by a node, so that any driver can draw them. Only where several coordinators share a database;
-- written behind, because a client that is missing here merely waits a little longer.
create table seats (
    client text primary key references clients (id) on delete cascade,
    node text not null,
    population text not null,
    number bigint not null,
    attributes text not null,
    examples bigint not null,
    codecs text not null,
    until_ms bigint not null
);
create index seats_of_population on seats (population);

-- Work that is done by the clock, once for all coordinators: whoever moves next_at_ms on does it.
create table schedules (
    name text primary key,
    -- Five fields: minute, hour, day of month, month, day of week.
    cron text not null,
    -- IANA name of the zone whose wall clocks the expression is about.
    time_zone text not null,
    next_at_ms bigint not null,
    -- The last run: when it began, and on which coordinator.
    started_at_ms bigint,
    node text,
    -- Null while it runs, and for ever when its coordinator was killed.
    ended_at_ms bigint,
    failed boolean not null default false,
    -- What was done, or why it failed.
    outcome text not null default ''
);
