-- Files that are made of model versions, for the clients of jobs with [download].

create table model_files (
    job text not null references jobs (id) on delete cascade,
    version bigint not null,
    -- 'f16' or 'int8': the whole model in that form. 'delta': the step from the version before.
    form text not null,
    -- Hash of the body as it is sent (hex SHA-256).
    sha256 text not null,
    -- Size of the body, which is in blob_chunks or in the store.
    bytes bigint not null,
    -- Whether the body is the file as one zstd frame.
    packed boolean not null,
    primary key (job, version, form)
);
