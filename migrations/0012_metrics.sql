-- Named scalars of reports, counts by class, and test sets of the coordinator's own evaluations.

-- JSON object of numbers: the named scalars of the report; null without any.
alter table assignments add column metrics text;

-- The named scalars of a round over its reports, stored when it is committed.
create table round_metrics (
    job text not null,
    task text not null,
    round bigint not null,
    name text not null,
    -- Number of reports that have it.
    reports bigint not null,
    -- Weighted by examples.
    mean double precision not null,
    -- Over clients.
    minimum double precision not null,
    p10 double precision not null,
    p50 double precision not null,
    p90 double precision not null,
    maximum double precision not null,
    primary key (job, task, name, round),
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);
create index round_metrics_of_round on round_metrics (job, round);

-- JSON: the counts by class of an evaluation, summed over its reports as they are accepted; null without any.
alter table rounds add column class_counts text;
-- JSON: targets and right answers of each class. Lists read these, and not the whole matrix.
alter table rounds add column class_totals text;

-- What the coordinator evaluates a job's models on.
create table test_sets (
    job text primary key references jobs (id) on delete cascade,
    -- Name of the body: `test_set/<job>/<random>`.
    body text not null,
    sha256 text not null,
    bytes bigint not null,
    examples bigint not null,
    uploaded_at_ms bigint not null
);
