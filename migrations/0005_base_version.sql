-- The version that an assignment was given belongs to the assignment: updates on different versions may meet in one round.
alter table assignments add column base_version bigint not null default 0 check (base_version >= 0);

update assignments set base_version = (
    select rounds.base_version from rounds
    where rounds.job = assignments.job and rounds.task = assignments.task and rounds.number = assignments.round
);
