-- Work that was counted while the clock stepped back was negative, and a negative figure made its round unreadable.
update rounds set work_ms = 0 where work_ms < 0;
update assignments set work_ms = 0 where work_ms < 0;

-- Whether a client may take part: active, quarantined (it checks in but gets no work) or revoked (it is refused).
alter table clients add column standing text not null default 'active';
alter table clients add column standing_reason text;
alter table clients add column standing_at_ms bigint not null default 0;

-- Bodies of an update that brought nothing: after too many, the assignment is rejected.
alter table assignments add column attempts bigint not null default 0 check (attempts >= 0);
