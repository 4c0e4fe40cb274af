-- How operators file a job: JSON list of names, a text, and since when it is archived.
alter table jobs add column tags text not null default '[]';
alter table jobs add column notes text not null default '';
alter table jobs add column archived_at_ms bigint;

-- Since when an operator wants this version kept, whatever the job's retention says.
alter table models add column pinned_at_ms bigint;

-- The few events of the job itself, among those of its rounds.
create index events_of_jobs on events (job, sequence) where round is null;
