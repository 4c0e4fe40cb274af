-- Largest L2 norm of an update of the round, fixed when the round opened; null: no bound.
alter table rounds add column norm_max double precision;
