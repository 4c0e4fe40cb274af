-- One schema for SQLite and PostgreSQL. Times are milliseconds since 1970 (UTC); ids are their text form; hashes are
-- SHA-256 in hex; a missing value is null. A released migration is never edited.

create table populations (
    name text primary key,
    -- Clients enrolled so far: the next one's number less one.
    clients bigint not null default 0,
    created_at_ms bigint not null,
    -- What its jobs together may tell about a unit, and what deleted ones have spent of it, as JSON.
    budget text
);

-- Operator tokens and enrolment tokens.
create table tokens (
    id text primary key,
    kind text not null check (kind in ('operator', 'enrolment')),
    -- Whose clients it enrols, or what an operator token is restricted to; null for the whole deployment.
    population text references populations (name),
    label text not null,
    -- What an operator token may do; null for enrolment tokens.
    role text check (role in ('viewer', 'operator', 'admin')),
    -- Of the credential: 32 random bytes need no slower hash.
    secret_sha256 text not null unique,
    created_at_ms bigint not null,
    expires_at_ms bigint,
    revoked_at_ms bigint,
    -- Kept to the minute: a write per request would cost more than the request.
    last_used_at_ms bigint,
    -- Clients enrolled with it, and their limits; null for no limit.
    uses bigint not null default 0,
    uses_max bigint,
    per_minute_max bigint,
    -- The minute that per_minute_max is about: when its first enrolment was, and how many there have been.
    minute_at_ms bigint not null default 0,
    minute_uses bigint not null default 0,
    -- JSON object of strings: attributes of each client that it enrols.
    attributes text not null default '{}'
);

create table clients (
    id text primary key,
    population text not null references populations (name),
    -- 1, 2, ... in the order of enrolment; cohorts are drawn by it.
    number bigint not null,
    -- The enrolment token that let it in.
    token text not null references tokens (id),
    -- Of the secret in use, and of the one that replaces it when it is first used.
    secret_sha256 text not null unique,
    next_secret_sha256 text unique,
    secret_at_ms bigint not null,
    -- Of the device's public key (SubjectPublicKeyInfo in DER); null until the client requests a certificate.
    key_sha256 text,
    -- End of the newest certificate that it was given; null if it was given none.
    certificate_until_ms bigint,
    -- JSON object of strings, as told at the last check-in that changed it.
    attributes text not null,
    -- JSON object of strings: those that its enrolment token granted. The client cannot change them.
    granted text not null default '{}',
    -- JSON object: the consent that it told at its enrolment; null for none.
    consent text,
    -- Examples held, as told at the last check-in that changed it.
    examples bigint not null,
    -- Its named example sets, as told with them: a JSON list of names.
    sets text not null default '[]',
    -- The kind of its SDK, as of its last check-in: rust, python, kotlin, swift, c, browser or another name.
    sdk text,
    -- The release of its SDK in its own words, and what it can do: a JSON list.
    sdk_version text,
    abilities text not null default '["first"]',
    created_at_ms bigint not null,
    -- Kept to the minute: writing it at every check-in would cost more than the check-in.
    last_seen_at_ms bigint not null,
    -- Whether it may take part: active, quarantined (it checks in but gets no work) or revoked (it is refused).
    standing text not null default 'active',
    standing_reason text,
    standing_at_ms bigint not null default 0,
    -- 1: nobody, in the place of a client that was erased while a round was open that needs its work.
    is_nobody bigint not null default 0 check (is_nobody in (0, 1)),
    unique (population, number)
);
create index clients_nobody on clients (id) where is_nobody = 1;
create index clients_by_last_seen on clients (population, last_seen_at_ms, number);
create index clients_by_key on clients (key_sha256);

-- The CA of each population, made when its first client requests a certificate.
create table population_cas (
    population text primary key references populations (name),
    -- X.509 in DER.
    certificate bytea not null,
    -- PKCS #8 in DER: whoever reads it can certify clients.
    private_key bytea not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null
);

-- People who sign in with a password.
create table accounts (
    name text primary key,
    role text not null check (role in ('viewer', 'operator', 'admin')),
    -- The only population that it shows and changes; null for the whole deployment.
    population text references populations (name),
    -- Argon2id in the PHC string format, with parameters and salt.
    password text not null,
    password_at_ms bigint not null,
    created_at_ms bigint not null,
    revoked_at_ms bigint
);

-- Browsers in which a person is signed in.
create table sessions (
    -- Of the cookie: 32 random bytes need no slower hash.
    secret_sha256 text primary key,
    -- Null where an identity provider knows the person.
    account text references accounts (name),
    -- `account:` and the name, or `oidc:` and the provider's subject.
    actor text not null,
    name text not null,
    -- What the provider's groups allowed at the sign-in; null for accounts, whose own role and population count.
    role text check (role in ('viewer', 'operator', 'admin')),
    population text,
    -- From where it signed in; null where the coordinator does not know.
    address text,
    created_at_ms bigint not null,
    -- Kept to the minute.
    last_used_at_ms bigint not null,
    expires_at_ms bigint not null
);
create index sessions_of_actor on sessions (actor);

-- One row: the key that signs what browsers keep of a sign-in with an identity provider.
create table sign_in_key (
    one bigint primary key check (one = 1),
    key text not null
);

-- What was done, by whom. Rows are only ever added; each has the hash of the one before.
create table audit (
    -- 1, 2, ... without gaps.
    number bigint primary key,
    at_ms bigint not null,
    -- Who acted: a token's id, `client` and a number, `account:` and a name, `anonymous` or `coordinator`.
    actor text not null,
    -- The label of the token or the name of the account then.
    label text not null,
    -- What was done, as `job.pause`.
    action text not null,
    -- To what: an id or a name; for a client its number, which leads to nobody once the client is erased.
    subject text not null,
    -- Which population it concerned; null for the deployment.
    population text,
    -- More about it; null when there is no more to say.
    detail text,
    -- Of the entry before, and of this one with that in it.
    previous text not null,
    hash text not null
);
create index audit_of_population on audit (population, number);
-- What people look for stands between many enrolments.
create index audit_without_enrolments on audit (number) where action <> 'client.enrol';

-- One row for all enrolments with one token on one day, which the list of the log shows in their place.
create table audit_enrolments (
    -- As in audit: the token's id.
    actor text not null,
    -- Days since 1970 (UTC).
    day bigint not null,
    entries bigint not null,
    first_at_ms bigint not null,
    -- The number of the newest of them.
    last_number bigint not null unique,
    primary key (actor, day)
);

-- One row: number and hash of the newest entry. Its lock orders the writers on PostgreSQL.
create table audit_head (
    one bigint primary key check (one = 1),
    number bigint not null,
    hash text not null
);
insert into audit_head (one, number, hash)
values (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');

create table jobs (
    id text primary key,
    population text not null references populations (name),
    name text not null,
    -- The job file as JSON, with the seed filled in.
    file text not null,
    -- Numbers of the model.
    parameters bigint not null,
    state text not null check (state in ('awaiting_model', 'running', 'relaying', 'paused', 'stopped', 'completed')),
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
    -- How operators file it: JSON list of names, a text, and since when it is archived.
    tags text not null default '[]',
    notes text not null default '',
    archived_at_ms bigint,
    unique (population, name)
);

create table models (
    job text not null references jobs (id) on delete cascade,
    version bigint not null,
    -- The training round that made it; null for version 0.
    round bigint,
    sha256 text not null,
    -- Size of the safetensors file.
    bytes bigint not null,
    created_at_ms bigint not null,
    -- When the job's retention let its file be deleted; the row stays.
    deleted_at_ms bigint,
    -- Since when an operator wants it kept, whatever the job's retention says.
    pinned_at_ms bigint,
    primary key (job, version)
);

-- Files that are made of model versions, for the clients of jobs with [download].
create table model_files (
    job text not null references jobs (id) on delete cascade,
    version bigint not null,
    -- 'f16' or 'int8': the whole model in that form. 'delta': the step from the version before.
    form text not null,
    -- Of the body as it is sent.
    sha256 text not null,
    bytes bigint not null,
    -- Whether the body is the file as one zstd frame.
    packed boolean not null,
    primary key (job, version, form)
);

-- Models that the apps of a population predict with. Their files are bodies of their own, so they outlast the jobs.
create table releases (
    id text primary key,
    population text not null references populations (name),
    -- The name that apps ask for, and the place in it: 1, 2, ..
    channel text not null,
    number bigint not null,
    -- The version, and the name of its job when the release was made; the job may be gone.
    job text not null,
    job_name text not null,
    version bigint not null,
    -- JSON: what the model is, and how it is used.
    card text not null,
    state text not null check (state in ('held', 'out', 'withdrawn', 'refused')),
    -- Millionths of the clients, and a JSON object of the attributes that they must have.
    share bigint not null,
    attributes text not null default '{}',
    -- What an evaluation must show, the job that evaluates, and what it came to.
    gate text,
    gate_job text,
    verdict text,
    -- Of the model's file, whose body is `release/<id>`.
    sha256 text not null,
    bytes bigint not null,
    -- Of the differences from another release, whose body is `difference/<id>`: its number and the hash of its file;
    -- null where there are none.
    base bigint,
    base_sha256 text,
    difference_sha256 text,
    difference_bytes bigint,
    difference_packed boolean,
    created_at_ms bigint not null,
    changed_at_ms bigint not null,
    -- When its files were deleted; the row stays.
    deleted_at_ms bigint,
    unique (population, channel, number)
);

-- The end of a job looks for the release that it evaluates.
create index releases_gate on releases (gate_job) where gate_job is not null;

-- The release of each channel that a client says it has.
create table client_releases (
    client text not null references clients (id) on delete cascade,
    channel text not null,
    release text not null references releases (id),
    since_ms bigint not null,
    primary key (client, channel)
);

create index client_releases_by_release on client_releases (release);

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

create table rounds (
    job text not null references jobs (id) on delete cascade,
    task text not null check (task in ('train', 'evaluate', 'describe')),
    -- 1, 2, ... in the job, of training rounds and of descriptions; an evaluation has the number of the round whose model
    -- it measures.
    number bigint not null,
    phase text not null check (phase in ('selecting', 'training', 'aggregating', 'committed', 'abandoned')),
    -- Why it was abandoned.
    reason text,
    base_version bigint not null,
    seed bigint not null,
    -- The policy under which it was opened, as JSON: it stays with the round when the job's changes.
    policy text not null,
    goal bigint not null,
    minimum bigint not null,
    -- Largest L2 norm of an update, fixed when the round opened; null: no bound.
    norm_max double precision,
    opened_at_ms bigint not null,
    selected_at_ms bigint,
    deadline_at_ms bigint,
    -- When it took its last report (Aggregating began).
    closed_at_ms bigint,
    ended_at_ms bigint,
    -- Clients by state of their assignments; those that still work are what is left of the cohort.
    cohort bigint not null default 0,
    reported bigint not null default 0,
    rejected bigint not null default 0,
    failed bigint not null default 0,
    expired bigint not null default 0,
    -- Of a buffer: the expired ones that it did not need because its job had ended.
    spare bigint not null default 0,
    -- How often an evaluation on the coordinator began without coming to an end.
    begun bigint not null default 0,
    -- Clients drawn one by one so far; a draw is conditional on it.
    drawn bigint not null default 0,
    -- Sum of the reported weights.
    weight bigint not null default 0,
    -- Sum of the staleness of the accepted updates, and the weight (in examples) that staleness took from them.
    staleness bigint not null default 0,
    lost_weight double precision not null default 0,
    -- Sum of the time that clients worked for their reports, stored when the round ends.
    work_ms bigint not null default 0,
    -- Time that stragglers did not compute because they stopped before the deadline.
    saved_ms bigint not null default 0,
    -- Weighted means: training loss of its own updates; loss and accuracy from the evaluation of its model.
    training_loss double precision,
    loss double precision,
    accuracy double precision,
    -- What that accuracy was measured on: examples and clients, the lower end of its interval, and the lowest accuracy
    -- and the 10th percentile of the clients.
    accuracy_examples bigint,
    accuracy_clients bigint,
    accuracy_low double precision,
    accuracy_worst double precision,
    accuracy_p10 double precision,
    -- Of a private round whose clip follows its updates: the share of updates within it, with noise.
    clip_share double precision,
    -- L2 norm of the step from the base version to the result, and diversity of the updates.
    step_norm double precision,
    diversity double precision,
    -- How many updates of equal weight they are worth.
    effective_updates double precision,
    -- JSON: the counts by class of an evaluation, summed over its reports as they are accepted; null without any.
    class_counts text,
    -- JSON: targets and right answers of each class. Lists read these, and not the whole matrix.
    class_totals text,
    -- JSON: the sums of a description over its reports as they are accepted; null before the first and after its end.
    description text,
    -- Bodies as sent, and what they would have taken as plain f32 safetensors files.
    bytes_up bigint not null default 0,
    bytes_down bigint not null default 0,
    raw_bytes_up bigint not null default 0,
    raw_bytes_down bigint not null default 0,
    -- When the job's retention let its assignments be deleted; the row stays.
    pruned_at_ms bigint,
    primary key (job, task, number)
);

-- The driver asks for these at every step.
create index rounds_open on rounds (job) where phase in ('selecting', 'training', 'aggregating');

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

create table assignments (
    id text primary key,
    job text not null,
    task text not null,
    -- The round in which it counts; of an open assignment, the round that is open now.
    round bigint not null,
    client text not null references clients (id),
    base_version bigint not null check (base_version >= 0),
    -- The number of examples that its client had told when it was drawn; 0: it did not say.
    examples bigint not null check (examples >= 0),
    -- Of a relay: most updates of its sum; 0: the client brings an update of its own.
    places bigint not null default 0 check (places >= 0),
    -- In a coded round: its row of the code, with its parts, as JSON.
    share text,
    -- Of the member that brings the sum of its group: the updates in it; 0 for everybody else.
    brings bigint not null default 0 check (brings >= 0),
    -- Deadline and seed of an assignment in a buffer, which outlasts its round; null: they are those of the round.
    deadline_at_ms bigint,
    seed bigint,
    state text not null check (state in ('assigned', 'reported', 'rejected', 'failed', 'expired')),
    -- Why it was rejected or failed, or expired before its time.
    reason text,
    assigned_at_ms bigint not null,
    -- When the download of the model ended, when the first byte of the update came, and how long the update took.
    fetched_at_ms bigint,
    upload_at_ms bigint,
    upload_ms bigint,
    ended_at_ms bigint,
    -- When a straggler came back with its late work, or stopped without finishing it.
    late_at_ms bigint,
    stopped_at_ms bigint,
    -- The report: how many updates it is the sum of, their examples, and its figures.
    updates bigint,
    weight bigint,
    loss double precision,
    accuracy double precision,
    steps bigint,
    work_ms bigint,
    -- L2 norm of the update.
    update_norm double precision,
    -- JSON object of numbers: the named scalars of the report; null without any.
    metrics text,
    -- Of the accepted report: the same bytes again get the same answer.
    report_sha256 text,
    -- Cosine of the update to the mean of its round.
    cosine double precision,
    bytes_up bigint not null default 0,
    bytes_down bigint not null default 0,
    raw_bytes_up bigint not null default 0,
    raw_bytes_down bigint not null default 0,
    -- Of a relay: the bytes of its clients' updates, and how long this coordinator took to answer it.
    bytes_below bigint,
    round_trip_ms bigint,
    -- Bodies of an update that brought nothing: after too many, the assignment is rejected.
    attempts bigint not null default 0 check (attempts >= 0),
    check ((deadline_at_ms is null) = (seed is null)),
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);

-- A cohort has each client once. A buffer may draw it again, with another seed.
create unique index assignments_of_round on assignments (job, task, round, client, coalesce(seed, 0));
-- A client has one assignment at a time, whoever hands them out.
create unique index assignments_open on assignments (client) where state = 'assigned';
create index assignments_of_client on assignments (client, job, round);
create index assignments_working on assignments (job) where state = 'assigned';
-- The newest assignments of all rounds: statistics of device classes are about them.
create index assignments_by_time on assignments (assigned_at_ms);
-- Clients whose apps demand more privacy than a job gives are not drawn again for a while.
create index assignments_refused on assignments (job, assigned_at_ms)
    where state = 'failed' and reason >= 'privacy' and reason < 'privacz';

-- Of a relay: the parts that it plays in its parent's rounds, until its parent has their sums or does without.
create table orders (
    -- The relay's assignment at its parent.
    assignment text primary key,
    job text not null,
    task text not null,
    round bigint not null,
    unique (job, task, round),
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);

-- Members of stale-synchronous jobs. A client is one from its draw until its work ends without a report, or until it
-- stays away too long.
create table members (
    job text not null references jobs (id) on delete cascade,
    client text not null references clients (id),
    -- Updates that it has contributed, counted from the clock at which it came.
    clock bigint not null check (clock >= 0),
    -- Since when a driver misses it: it could begin its next work, and does not wait for it.
    missed_at_ms bigint,
    primary key (job, client)
);

-- What private jobs have spent. Rows are only ever added; each has the hash of the one before.
create table privacy_ledger (
    job text not null references jobs (id) on delete cascade,
    -- 1, 2, ... without gaps.
    number bigint not null,
    -- The round whose sum was released, and the version that it was to make.
    round bigint not null,
    version bigint not null,
    mechanism text not null,
    -- Standard deviation of the noise, in clips.
    noise_multiplier double precision not null,
    -- What one unit can change in all releases together, in clips, if their noise is correlated; else in one release.
    sensitivity double precision not null,
    -- Chance with which a unit was drawn, where the promise counts on it.
    rate double precision,
    -- Most updates of one unit so far, this round included.
    participations bigint not null,
    at_ms bigint not null,
    previous text not null,
    hash text not null,
    primary key (job, number)
);

-- Keys of the noise of rounds whose sums are being released, in hex. They are deleted when the round ends: who had one
-- could take the noise away again.
create table round_keys (
    job text not null,
    task text not null,
    round bigint not null,
    key text not null,
    primary key (job, task, round),
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);

-- Groups of clients that add up their updates under masks.
create table secure_groups (
    id text primary key,
    job text not null,
    task text not null,
    round bigint not null,
    -- What its members agree on: job, round, group, model, plan, sizes.
    context bytea not null,
    stage text not null check (stage in ('sharing', 'masking', 'agreeing', 'unmasking', 'summed', 'failed')),
    stage_since_ms bigint not null,
    -- How long a member may take for its masked update.
    masking_ms bigint not null,
    members bigint not null,
    -- Their number, and a bit for each whose masked update is in the sum. It is written once and never computed again.
    survivors bytea,
    -- Of the opened sum: updates, and those that were within the clip.
    summed bigint,
    whole bigint,
    -- Why it failed.
    reason text,
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);
create index secure_groups_of_round on secure_groups (job, task, round);

-- Clients that joined with finished work. Those without a group wait for one.
create table secure_members (
    assignment text primary key references assignments (id) on delete cascade,
    job text not null,
    task text not null,
    round bigint not null,
    joined_at_ms bigint not null,
    -- When it last asked for its group: one that is silent has left.
    asked_at_ms bigint not null,
    -- Its public keys and commitments.
    record bytea not null,
    -- With which it signs, X.509 in DER; empty where members do not sign.
    certificate bytea not null,
    group_id text references secure_groups (id) on delete cascade,
    -- Its place in the roster.
    position bigint,
    -- SHA-256 of its masked update, once it is stored.
    body text,
    -- Its signature over the survivors, once it has come.
    signature bytea,
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);
create index secure_members_of_round on secure_members (job, task, round);
create index secure_members_of_group on secure_members (group_id);

-- What members send each other through the coordinator: sealed shares, then the shares that open the sum. They are
-- deleted when the group ends.
create table secure_shares (
    group_id text not null references secure_groups (id) on delete cascade,
    stage text not null check (stage in ('sharing', 'unmasking')),
    sender bigint not null,
    recipient bigint not null,
    share bytea not null,
    primary key (group_id, stage, sender, recipient)
);

-- Clients that have finished, and join the next group that adds up among itself.
create table ring_ready (
    assignment text primary key references assignments (id) on delete cascade,
    job text not null,
    task text not null,
    round bigint not null,
    ready_at_ms bigint not null,
    -- When it last asked for its group: one that is silent has left.
    asked_at_ms bigint not null,
    -- The attempt that it saw last.
    seen bigint not null,
    -- Exchanges with the others that it has completed while it trains; 0 where members meet after their trainings.
    exchanged bigint not null default 0,
    -- SHA-256 of its public key (SubjectPublicKeyInfo in DER), and a JSON list of its addresses.
    key_sha256 text not null,
    addresses text not null,
    weight bigint not null,
    loss double precision,
    steps bigint not null,
    work_ms bigint not null,
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);
create index ring_ready_of_round on ring_ready (job, task, round);

-- Groups that add up among themselves: the attempts of a round.
create table ring_attempts (
    id text primary key,
    job text not null,
    task text not null,
    round bigint not null,
    -- 1, 2, ..
    number bigint not null,
    state text not null check (state in ('formed', 'agreed', 'counted', 'failed')),
    formed_at_ms bigint not null,
    -- When it came to this state, or another member was asked for the sum.
    since_ms bigint not null,
    -- Exchanges after which its members go on.
    exchanged bigint not null default 0,
    -- Of the body on which its members agree.
    sha256 text,
    unique (job, task, round, number),
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);

-- Their members, around the ring.
create table ring_members (
    attempt text not null references ring_attempts (id) on delete cascade,
    position bigint not null,
    assignment text not null references assignments (id) on delete cascade,
    -- SHA-256 of the sum that it has, and when it said so.
    outcome text,
    outcome_at_ms bigint,
    bytes_sent bigint,
    bytes_received bigint,
    took_ms bigint,
    -- Kilobits in a second that its link to the next member took.
    sent_kbit_s bigint,
    -- In gossip: the distance of its model from the mean of all members' models.
    distance double precision,
    -- Whether it was asked for the sum.
    asked bigint not null default 0 check (asked in (0, 1)),
    -- Whom it could not go on with: a position, what that did, and the step.
    blames bigint,
    blames_for text check (blames_for in ('unreachable', 'silent', 'closed', 'wrong')),
    blames_step bigint,
    -- Whether its link to the next member goes through a coordinator, through which one, and what that passed on.
    relayed bigint not null default 0 check (relayed in (0, 1)),
    relayed_by text,
    relayed_bytes bigint,
    primary key (attempt, position)
);
create index ring_members_by_assignment on ring_members (assignment);

-- The way from one client to another one, to which it connects and sends.
create table ring_pairs (
    sender text not null references clients (id) on delete cascade,
    receiver text not null references clients (id) on delete cascade,
    -- When the sender last could not connect.
    unreachable_at_ms bigint,
    -- The newest measurement, and when it was told.
    kbit_s bigint,
    measured_at_ms bigint,
    primary key (sender, receiver)
);
create index ring_pairs_by_receiver on ring_pairs (receiver);

-- Rounds whose members send their own updates after all.
create table ring_stars (
    job text not null,
    task text not null,
    round bigint not null,
    reason text not null check (reason in ('time', 'attempts', 'too_few', 'disagreement', 'links')),
    at_ms bigint not null,
    primary key (job, task, round),
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);

-- What units (clients, or persons with several) have contributed to private jobs.
create table privacy_units (
    job text not null references jobs (id) on delete cascade,
    -- A client's id, or the value of the attribute that tells persons apart.
    unit text not null,
    -- Updates that counted, and the version that the last of them was to make.
    updates bigint not null,
    version bigint not null,
    -- Draws look up the units that wait.
    primary key (unit, job)
);
create index privacy_units_of_job on privacy_units (job);

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
-- The few events of the job itself, among those of its rounds.
create index events_of_jobs on events (job, sequence) where round is null;

-- Bodies of models and updates in chunks of at most 1 MiB, so that neither database ever holds a large value in memory.
-- `blob` is `model/<job>/<version>`, `update/<assignment>` or the like.
create table blob_chunks (
    blob text not null,
    chunk bigint not null,
    data bytea not null,
    -- CRC-32 of the bytes as they were written. Reading compares it, which costs a tenth of a SHA-256.
    crc bigint not null,
    primary key (blob, chunk)
);

-- Bodies, and chunks of bodies, that are in files or an object store instead. A body in files is one file, to which its
-- chunks are appended: several rows name one object.
create table objects (
    -- As in blob_chunks, or `<staged body>/<chunk>`.
    blob text primary key,
    -- Key in the store, below the deployment's id: one per attempt, so that none is ever overwritten.
    object text not null,
    -- The first byte of the body, or of its chunk, in the object.
    begins bigint not null,
    bytes bigint not null,
    crc bigint not null,
    unique (object, begins)
);

-- Bodies that are written chunk by chunk, under names of their own. The transaction that makes one count only stores
-- which body it is: nothing is copied. A row is one of three things: not finished (blob null, expires_at_ms above 0), a
-- body (blob set, expires_at_ms null), or obsolete, to be deleted with its chunks (blob null, expires_at_ms 0).
create table staged_bodies (
    -- `staged/<random>`. Its chunks are in blob_chunks under this name, or in objects as `<id>/<chunk>`.
    id text primary key,
    -- The body that it is, named as in blob_chunks.
    blob text unique,
    -- Whose unfinished update it is, as long as it can be resumed; null for models.
    assignment text,
    -- Of an update that comes in parts: which one.
    part bigint not null default 0,
    in_store boolean not null,
    -- Length of every chunk but the last, which may be shorter.
    chunk_bytes bigint not null,
    -- How much of it is stored.
    bytes bigint not null,
    -- Of the whole body, where its sender announced it.
    sha256 text,
    -- Rises by one whenever somebody else goes on with it: who was at it before can add nothing more.
    attempt bigint not null default 1,
    expires_at_ms bigint,
    unique (assignment, part)
);
create index staged_bodies_unfinished on staged_bodies (expires_at_ms) where blob is null;

-- One row: the id that tells this database's objects from others' in the same store.
create table deployment (
    one bigint primary key check (one = 1),
    id text not null
);

-- Coordinators that share this database.
create table nodes (
    id text primary key,
    version text not null,
    started_at_ms bigint not null,
    -- Renewed with its leases; a node that has not been seen for a lease's length is dead.
    seen_at_ms bigint not null,
    lease_ms bigint not null,
    -- Where clients reach this one; null where any does.
    url text
);

-- Which coordinator adds up which range of a job's parameters. The driver of the job names it when a round opens, and
-- another one when it has died.
create table shards (
    job text not null references jobs (id) on delete cascade,
    -- From 0.
    shard bigint not null,
    node text not null,
    primary key (job, shard)
);

-- Parts that have come of updates. Their bodies are `update/<assignment>/<part>`.
create table update_parts (
    assignment text not null references assignments (id) on delete cascade,
    part bigint not null,
    sha256 text not null,
    -- What the update weighs, as each of its parts says.
    weight bigint not null,
    -- Squared L2 norm of the part.
    squares double precision not null,
    primary key (assignment, part)
);

-- A model version that is made range by range, of a round that is aggregating.
create table shard_makings (
    job text not null,
    task text not null,
    round bigint not null,
    -- Turns that were taken: in each lap every shard has one, in their order.
    done bigint not null,
    -- What the coordinators hand on.
    state text not null,
    primary key (job, task, round),
    foreign key (job, task, round) references rounds (job, task, number) on delete cascade
);

-- Who drives a job, until when. Two drivers do no harm (every step is a conditional update); the lease saves their work.
create table leases (
    job text primary key references jobs (id) on delete cascade,
    node text not null,
    -- Rises by one with each change of hands.
    token bigint not null,
    -- 0: given up.
    expires_at_ms bigint not null
);

-- Jobs that changed hands because their coordinator died.
create table takeovers (
    job text not null references jobs (id) on delete cascade,
    -- Of the new lease.
    token bigint not null,
    at_ms bigint not null,
    from_node text not null,
    to_node text not null,
    -- When the dead coordinator was last seen.
    seen_at_ms bigint not null,
    primary key (job, token)
);

-- Clients that are held by a node, so that any driver can draw them. Only where several coordinators share a database;
-- written asynchronously, because a client that is missing here merely waits a little longer.
create table seats (
    client text primary key references clients (id) on delete cascade,
    node text not null,
    population text not null,
    number bigint not null,
    attributes text not null,
    examples bigint not null,
    -- JSON object: its named example sets.
    sets text not null,
    codecs text not null,
    -- JSON list: what its SDK can do.
    abilities text not null,
    -- By which a job's columns were applied to its table; null if any job may use its examples.
    schema_sha256 text,
    -- Whether it answers analyses.
    answers boolean not null,
    -- Whether it can mask updates, and sign in a group.
    masks boolean not null,
    signs boolean not null,
    -- Of a relay: the clients that it stands for.
    relay bigint,
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

-- Notifications that are sent to the webhook of the configuration.
create table notices (
    -- Repeated in the body, so that a receiver can recognise one that is sent twice.
    id text not null,
    -- Which webhook takes it: empty for the one that takes all, else a population.
    target text not null,
    -- JSON.
    body text not null,
    created_at_ms bigint not null,
    attempts bigint not null default 0,
    -- When it is sent again; whoever moves this on sends it. Null when it was sent or given up.
    next_at_ms bigint,
    sent_at_ms bigint,
    primary key (id, target)
);
create index notices_due on notices (next_at_ms) where next_at_ms is not null;

-- Lines of health that call for an action: told to the webhooks once they stay, and when they are gone.
create table health_findings (
    -- A running job, or `database`.
    subject text not null,
    kind text not null,
    since_at_ms bigint not null,
    is_told boolean not null,
    -- Since when it is gone; null while it is there.
    gone_at_ms bigint,
    primary key (subject, kind)
);
