-- The kind of a client's SDK, as of its last check-in: rust, python, kotlin, swift, c, browser or another name.
alter table clients add column sdk text;
