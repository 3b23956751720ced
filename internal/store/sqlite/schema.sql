-- What the migrations add up to. Made by go test -update; do not edit.

CREATE TABLE accounts (
    id            blob primary key check (length(id) = 16),
    uid           text check (uid <> ''),
    name          text not null,
    created_at    integer not null,
    deleted_at    integer,
    keep_events   integer not null default 0 check (keep_events >= 0),
    keep_attempts integer not null default 0 check (keep_attempts >= 0),
    keep_bodies   integer not null default 0 check (keep_bodies >= 0),
    keep_keys     integer not null default 0 check (keep_keys >= 0)
) strict, without rowid;

CREATE INDEX accounts_deleted on accounts (id) where deleted_at is not null;

CREATE INDEX accounts_retention on accounts (id) where keep_events + keep_attempts + keep_bodies + keep_keys > 0;

CREATE UNIQUE INDEX accounts_uid on accounts (uid) where uid is not null and deleted_at is null;

CREATE TABLE api_keys (
    id           blob primary key check (length(id) = 16),
    name         text not null,
    hash         blob not null unique check (length(hash) = 32),
    scopes       text not null check (json_type(scopes) = 'array'),
    account      blob check (length(account) = 16),
    created_at   integer not null,
    expires_at   integer,
    revoked_at   integer,
    last_used_at integer
) strict, without rowid;

CREATE INDEX api_keys_account on api_keys (account) where account is not null;

CREATE TABLE archive_keys (
    account   blob primary key check (length(account) = 16),
    encrypted blob not null check (length(encrypted) > 0)
) strict, without rowid;

CREATE TABLE archive_lease (
    node  integer not null,
    until integer not null,
    only  integer primary key default 1 check (only = 1)
) strict;

CREATE TABLE archive_parts (
    kind      text not null check (kind in ('events', 'attempts', 'bodies')),
    day       integer not null,
    number    integer not null check (number >= 1),
    object    text not null,
    row_count integer not null check (row_count >= 0),
    deleted   integer not null check (deleted between 0 and row_count),
    bytes     integer not null check (bytes >= 0),
    sha256    blob not null check (length(sha256) = 32),
    after     blob not null check (length(after) = 16),
    last      blob not null check (length(last) = 16),
    made_at   integer not null,
    primary key (kind, day, number)
) strict, without rowid;

CREATE TABLE attempt_bodies (
    delivery      blob not null check (length(delivery) = 16),
    number        integer not null,
    request_head  blob,
    response_head blob,
    response_body blob,
    primary key (delivery, number)
) strict;

CREATE TABLE attempts (
    delivery       blob not null check (length(delivery) = 16),
    number         integer not null check (number >= 0),
    event          blob not null check (length(event) = 16),
    endpoint       blob not null check (length(endpoint) = 16),
    account        blob not null check (length(account) = 16),
    type           text not null,
    outcome        text not null check (outcome = 'accepted' or outcome = 'rejected' or outcome = 'timed_out'
        or outcome = 'unreachable' or outcome = 'throttled' or outcome = 'broken' or outcome = 'blocked' or outcome = 'gone'
        or outcome = 'lost' or outcome = 'none'),
    status_code    integer not null check (status_code = 0 or status_code between 100 and 999),
    error          text not null,
    retry_after    integer not null check (retry_after >= 0),
    started_at     integer not null,
    duration       integer not null check (duration >= 0),
    stale          integer not null check (stale in (0, 1)),
    status_after   text not null check (status_after = 'delivered' or status_after = 'pending' or status_after = 'dead'
        or status_after = 'cancelled' or status_after = 'skipped'),
    next_at        integer,
    replayed_from  blob check (length(replayed_from) = 16),
    replay_job     blob check (length(replay_job) = 16),
    response_start blob check (length(response_start) <= 256),
    final_url      text,
    timing         blob,
    -- The head of an accepted response, or (16 bytes) the delivery of this endpoint and day whose row has it.
    response_head  blob check (length(response_head) <= 512),
    primary key (delivery, number),
    constraint attempts_next_at check (next_at is null or status_after = 'pending'),
    constraint attempts_stale check (not stale or status_after = 'pending'),
    constraint attempts_decision check (status_after not in ('cancelled', 'skipped') or outcome = 'none')
) strict, without rowid;

CREATE INDEX attempts_account on attempts (account, delivery);

CREATE INDEX attempts_decided on attempts (status_after, delivery) where outcome = 'none';

CREATE INDEX attempts_decided_account on attempts (account, status_after, delivery) where outcome = 'none';

CREATE INDEX attempts_decided_endpoint on attempts (endpoint, status_after, delivery) where outcome = 'none';

CREATE INDEX attempts_endpoint on attempts (endpoint, delivery);

CREATE INDEX attempts_event on attempts (event);

CREATE INDEX attempts_replay_job on attempts (replay_job, delivery) where replay_job is not null;

CREATE INDEX attempts_replay_job_decided on attempts (replay_job) where replay_job is not null and outcome = 'none';

CREATE INDEX attempts_replays on attempts (event, endpoint, delivery) where replayed_from is not null;

CREATE TRIGGER audit_is_final before update on audit begin select raise(abort, 'audit entries never change'); end;

CREATE TABLE audit (
    id        blob primary key check (length(id) = 16),
    action    text not null,
    outcome   text not null,
    key       blob check (length(key) = 16),
    session   blob check (length(session) = 16),
    name      text not null,
    account   blob check (length(account) = 16),
    object    text not null,
    object_id text check (object_id <> ''),
    request   text not null,
    details   text not null check (json_valid(details))
) strict, without rowid;

CREATE INDEX audit_account on audit (account, id) where account is not null;

CREATE INDEX audit_action on audit (action, id);

CREATE INDEX audit_key on audit (key, id) where key is not null;

CREATE INDEX audit_object on audit (object_id, id) where object_id is not null;

CREATE INDEX audit_session on audit (session, id) where session is not null;

CREATE TABLE circuits (
    endpoint      blob primary key references endpoints (id),
    status        text not null check (status in ('closed', 'open', 'half_open')),
    reason        text not null,
    opened_at     integer,
    probe_at      integer,
    cooldown      integer not null check (cooldown >= 0),
    failing_since integer,
    paced_until   integer,
    rate_full_at  integer,
    failures      integer not null check (failures >= 0),
    last_attempt_at integer,
    last_outcome  text not null,
    generation    integer not null check (generation >= 1)
) strict, without rowid;

CREATE INDEX circuits_failing on circuits (endpoint) where failing_since is not null;

CREATE TABLE dead_letters (
    delivery         blob primary key check (length(delivery) = 16),
    event            blob not null check (length(event) = 16),
    endpoint         blob not null check (length(endpoint) = 16),
    account          blob not null check (length(account) = 16),
    type             text not null,
    reason           text not null check (reason <> ''),
    attempts         integer not null check (attempts >= 0),
    last_status_code integer not null,
    last_error       text not null,
    replayed_from    blob check (length(replayed_from) = 16),
    replay_job       blob check (length(replay_job) = 16),
    died_at          integer not null,
    resolved_at      integer,
    resolution       text check (resolution in ('replayed', 'discarded')),
    resolved_by      text not null default '',
    note             text not null default '',
    replay           blob check (length(replay) = 16),
    constraint dead_letters_resolved check ((resolved_at is null) = (resolution is null)),
    constraint dead_letters_replay check (resolution is not 'replayed' or replay is not null)
) strict, without rowid;

CREATE INDEX dead_letters_account on dead_letters (account, delivery);

CREATE INDEX dead_letters_endpoint on dead_letters (endpoint, delivery);

CREATE INDEX dead_letters_event on dead_letters (event);

CREATE INDEX dead_letters_reason on dead_letters (reason, delivery);

CREATE INDEX dead_letters_reason_account on dead_letters (account, reason, delivery);

CREATE INDEX dead_letters_replay_job on dead_letters (replay_job, delivery) where replay_job is not null;

CREATE INDEX dead_letters_replays on dead_letters (event, endpoint, delivery) where replayed_from is not null;

CREATE INDEX dead_letters_resolved on dead_letters (resolved_at) where resolved_at is not null;

CREATE INDEX dead_letters_unresolved on dead_letters (account, endpoint, reason, last_status_code, last_error, delivery, resolved_at)
    where resolved_at is null;

CREATE TABLE endpoint_health (
    endpoint blob not null references endpoints (id),
    number   integer not null check (number >= 1),
    account  blob not null check (length(account) = 16),
    status   text not null check (status in ('healthy', 'warned', 'disabled')),
    reason   text not null,
    warnings integer not null check (warnings >= 0),
    since    integer not null,
    last     integer not null check (last in (0, 1)),
    primary key (endpoint, number)
) strict, without rowid;

CREATE INDEX endpoint_health_past on endpoint_health (since) where not last;

CREATE INDEX endpoint_health_unhealthy on endpoint_health (endpoint) where last and status <> 'healthy';

CREATE TABLE endpoint_secrets (
    id         blob primary key check (length(id) = 16),
    endpoint   blob not null references endpoints (id),
    encrypted  blob not null check (length(encrypted) > 0),
    public     text check (public <> ''),
    created_at integer not null,
    expires_at integer
) strict, without rowid;

CREATE INDEX endpoint_secrets_endpoint on endpoint_secrets (endpoint, id);

CREATE INDEX endpoint_secrets_public on endpoint_secrets (id) where public is not null;

CREATE TABLE endpoints (
    id            blob primary key check (length(id) = 16),
    account       blob not null check (length(account) = 16),
    kind          text not null check (kind in ('http', 'inspector')),
    uid           text check (uid <> ''),
    url           text not null,
    description   text not null,
    event_types   text not null check (json_type(event_types) = 'array'),
    status        text not null check (status in ('enabled', 'paused', 'disabled', 'deleted')),
    status_reason text not null,
    status_since  integer not null,
    policy        text not null check (json_valid(policy)),
    credentials   blob check (length(credentials) > 0),
    full_since    integer,
    verified_at   integer,
    revision      integer not null check (revision >= 1),
    version       integer not null,
    created_at    integer not null,
    updated_at    integer not null
) strict;

CREATE INDEX endpoints_account on endpoints (account, id) where status <> 'deleted';

CREATE INDEX endpoints_credentials on endpoints (id) where credentials is not null;

CREATE INDEX endpoints_deleted on endpoints (id) where status = 'deleted';

CREATE INDEX endpoints_full on endpoints (id) where full_since is not null and status <> 'deleted';

CREATE UNIQUE INDEX endpoints_uid on endpoints (account, uid) where uid is not null and status <> 'deleted';

CREATE UNIQUE INDEX endpoints_version on endpoints (version);

CREATE TABLE event_types (
    name        text primary key,
    description text not null,
    example     text not null, -- JSON, its bytes as they were given; empty: none
    created_at  integer not null
) strict, without rowid;

CREATE TABLE events (
    id           blob primary key check (length(id) = 16),
    account      blob not null check (length(account) = 16),
    type         text not null,
    data         blob not null,
    api_version  text not null,
    ordering_key text not null,
    sequence     integer not null,
    hops         integer not null check (hops >= 0),
    max_attempts integer not null default 0 check (max_attempts >= 0),
    idempotency_key text check (idempotency_key <> ''),
    trace_context blob check (length(trace_context) between 24 and 536),
    created_at   integer not null,
    constraint events_order check ((ordering_key = '') = (sequence = 0))
) strict;

CREATE INDEX events_account on events (account, id);

CREATE INDEX events_order on events (account, ordering_key, id) where ordering_key <> '';

CREATE TABLE expunges (
    id           blob primary key check (length(id) = 16),
    event        blob check (length(event) = 16),
    endpoint     blob check (length(endpoint) = 16),
    account      blob not null check (length(account) = 16),
    made_by      text not null,
    events       integer not null default 0 check (events >= 0),
    attempts     integer not null default 0 check (attempts >= 0),
    dead_letters integer not null default 0 check (dead_letters >= 0),
    other        integer not null default 0 check (other >= 0),
    archived     integer not null default 0 check (archived >= 0),
    digest       blob not null default (zeroblob(32)) check (length(digest) = 32),
    empty_since  integer,
    archive_day  integer,
    archive_done integer not null default 0 check (archive_done in (0, 1)),
    archive_held integer not null default 0 check (archive_held in (0, 1)),
    archive_fault text not null default '',
    created_at   integer not null,
    ended_at     integer
) strict, without rowid;

CREATE INDEX expunges_running on expunges (id) where ended_at is null;

CREATE TABLE fanouts (
    event      blob primary key check (length(event) = 16),
    account    blob not null check (length(account) = 16),
    type       text not null,
    up_to      blob not null check (length(up_to) = 16),
    cursor     blob not null check (length(cursor) = 16),
    token      integer check (token <> 0),
    due_at     integer not null,
    created_at integer not null
) strict, without rowid;

CREATE TABLE hold (
    since      integer,
    reason     text not null,
    last_event blob check (length(last_event) = 16),
    sequences  integer not null default 0,
    only       integer primary key default 1 check (only = 1)
) strict;

CREATE TABLE idempotency_keys (
    account    blob not null check (length(account) = 16),
    key        text not null,
    event      blob not null check (length(event) = 16),
    hash       blob not null check (length(hash) = 32),
    created_at integer not null,
    primary key (key, account)
) strict, without rowid;

CREATE INDEX idempotency_keys_created_at on idempotency_keys (created_at);

CREATE TABLE inspections (
    id         blob primary key check (length(id) = 16),
    endpoint   blob not null check (length(endpoint) = 16),
    delivery   blob not null check (length(delivery) = 16),
    event      blob not null check (length(event) = 16),
    type       text not null,
    attempt    integer not null check (attempt >= 1),
    document   text not null check (json_valid(document)),
    body       blob check (length(body) <= 262144),
    body_bytes integer not null check (body_bytes >= 0)
) strict;

CREATE INDEX inspections_endpoint on inspections (endpoint, id);

CREATE TABLE keyring (
    text blob not null check (length(text) > 0),
    only integer primary key default 1 check (only = 1)
) strict;

CREATE TABLE notice_destinations (
    id           blob primary key check (length(id) = 16),
    account      blob check (length(account) = 16),
    channel      text not null check (channel in ('email', 'slack')),
    address      text not null,
    language     text not null,
    kinds        text check (json_type(kinds) = 'array'),
    unsubscribed text not null check (json_type(unsubscribed) = 'array'),
    confirmed_at integer,
    refused_at   integer,
    ask          text not null check (ask in ('', 'confirmation', 'test')),
    told_until   blob check (length(told_until) = 16),
    last_sent_at integer,
    failures     integer not null check (failures >= 0),
    last_error   text not null,
    token        integer,
    due_at       integer not null,
    check ((confirmed_at is null) = (told_until is null))
) strict;

CREATE INDEX notice_destinations_account on notice_destinations (account, id) where account is not null;

CREATE UNIQUE INDEX notice_destinations_address on notice_destinations (ifnull(account, x''), channel, address);

CREATE INDEX notice_destinations_due on notice_destinations (channel, due_at) where refused_at is null;

CREATE INDEX notice_destinations_operator on notice_destinations (id) where account is null;

CREATE TABLE notices (
    id         blob primary key check (length(id) = 16),
    account    blob check (length(account) = 16),
    kind       text not null,
    object     text not null,
    occurrence text not null,
    details    text not null check (json_valid(details))
) strict, without rowid;

CREATE INDEX notices_account on notices (account, id) where account is not null;

CREATE INDEX notices_kind on notices (kind, id);

CREATE INDEX notices_object on notices (object, id);

CREATE UNIQUE INDEX notices_once on notices (kind, object, occurrence);

CREATE TABLE notices_published (
    last blob not null check (length(last) = 16)
) strict;

CREATE TABLE ordering_keys (
    account      blob not null check (length(account) = 16),
    ordering_key text not null,
    last         integer not null check (last >= 1),
    primary key (ordering_key, account)
) strict, without rowid;

CREATE TABLE paused_keys (
    endpoint     blob not null check (length(endpoint) = 16),
    ordering_key text not null check (ordering_key <> ''),
    delivery     blob not null unique check (length(delivery) = 16),
    since        integer not null,
    primary key (endpoint, ordering_key)
) strict, without rowid;

CREATE TABLE portal (
    name          text not null,
    colour        text not null,
    frame_origins text not null check (json_type(frame_origins) = 'array'),
    options       text check (json_type(options) = 'array'),
    logo          blob check (length(logo) > 0),
    logo_hash     blob check (length(logo_hash) = 32),
    updated_at    integer,
    only          integer primary key default 1 check (only = 1)
) strict;

CREATE TABLE probe (
    id      integer primary key check (id = 1),
    at      integer not null,
    padding blob not null
) strict;

CREATE TABLE queue (
    id            blob primary key check (length(id) = 16),
    event         blob not null check (length(event) = 16),
    endpoint      blob not null check (length(endpoint) = 16),
    account       blob not null check (length(account) = 16),
    type          text not null,
    lane          integer not null check (lane between 0 and 3),
    due_at        integer not null,
    claims        integer not null check (claims >= 0),
    step          integer not null default 0 check (step >= 0),
    losses        integer not null default 0 check (losses >= 0),
    deaths_alone  integer not null default 0 check (deaths_alone >= 0),
    parked        integer not null default 0 check (parked in (0, 1)),
    token         integer check (token <> 0),
    ordering_key  text check (ordering_key <> ''),
    sequence      integer check (sequence >= 1),
    pauses        integer check (pauses in (0, 1)),
    expires_at    integer not null,
    replayed_from blob check (length(replayed_from) = 16),
    replay_job    blob check (length(replay_job) = 16),
    constraint queue_leased check (token is null or claims >= 1),
    constraint queue_parked check (not parked or token is null and lane = 3),
    constraint queue_order check ((ordering_key is null) = (sequence is null) and (ordering_key is null) = (pauses is null))
) strict, without rowid;

CREATE INDEX queue_due on queue (endpoint, lane, due_at, id);

CREATE INDEX queue_event on queue (event);

CREATE INDEX queue_order_key on queue (endpoint, ordering_key, sequence) where ordering_key is not null;

CREATE INDEX queue_ordered_expires_at on queue (expires_at) where ordering_key is not null;

CREATE INDEX queue_replay_job on queue (replay_job, id) where replay_job is not null;

CREATE INDEX queue_replays on queue (event, endpoint, id) where replayed_from is not null;

CREATE TABLE quota_use (
    account blob primary key check (length(account) = 16),
    rate    integer not null,
    burst   integer not null,
    events  real not null,
    at      integer not null,
    asked   integer not null,
    day     integer not null,
    bytes   integer not null
) strict, without rowid;

CREATE TABLE quotas (
    account           blob primary key check (length(account) = 16),
    events_per_second integer not null,
    burst             integer not null,
    bytes_per_day     integer not null,
    endpoints         integer not null,
    backlog           integer not null,
    version           integer not null
) strict, without rowid;

CREATE UNIQUE INDEX quotas_version on quotas (version);

CREATE TABLE replay_jobs (
    id              blob primary key check (length(id) = 16),
    account         blob check (length(account) = 16),
    action          text not null check (action in ('replay', 'discard')),
    filter          text not null,
    per_second      integer not null check (per_second >= 1),
    made_by         text not null,
    note            text not null,
    expected        integer not null check (expected >= 0),
    expected_exact  integer not null check (expected_exact in (0, 1)),
    status          text not null check (status in ('running', 'paused', 'done', 'cancelled', 'failed')),
    error           text not null,
    cursor          blob not null check (length(cursor) = 16),
    held            text not null,
    handled         integer not null check (handled >= 0),
    bytes_gone      integer not null check (bytes_gone >= 0),
    replay_pending  integer not null check (replay_pending >= 0),
    endpoint_deleted integer not null check (endpoint_deleted >= 0),
    resolved        integer not null check (resolved >= 0),
    token           integer check (token <> 0),
    due_at          integer not null,
    created_at      integer not null,
    ended_at        integer,
    constraint replay_jobs_ended check ((ended_at is null) = (status in ('running', 'paused')))
) strict, without rowid;

CREATE INDEX replay_jobs_account on replay_jobs (account, id) where account is not null;

CREATE INDEX replay_jobs_running on replay_jobs (id) where status = 'running';

CREATE TABLE restored_records (
    id       blob not null check (length(id) = 16),
    number   integer not null check (number >= 0),
    kind     text not null check (kind in ('events', 'attempts', 'bodies')),
    account  blob not null check (length(account) = 16),
    event    blob not null check (length(event) = 16),
    endpoint blob not null check (length(endpoint) = 16),
    type     text not null,
    record   blob not null,
    at       integer not null,
    primary key (id, number, kind)
) strict;

CREATE INDEX restored_records_account on restored_records (account, id, number, kind);

CREATE INDEX restored_records_at on restored_records (at);

CREATE INDEX restored_records_event on restored_records (event, id, number, kind);

CREATE TABLE rollup_deltas (
    id      integer primary key,
    at      integer not null,
    counted blob not null check (length(counted) > 0)
) strict;

CREATE TABLE rollup_positions (
    step  integer primary key check (step between 0 and 1),
    at    integer not null,
    scope blob not null check (length(scope) = 16),
    type  text not null
) strict;

CREATE TABLE rollups (
    scope     blob not null check (length(scope) = 16),
    type      text not null,
    step      integer not null check (step between 0 and 2),
    at        integer not null,
    counts    blob not null,
    responses blob,
    latencies blob,
    delivered integer not null,
    dead      integer not null,
    primary key (scope, type, step, at)
) strict, without rowid;

CREATE INDEX rollups_at on rollups (step, at, scope, type);

CREATE INDEX rollups_dying on rollups (scope, at) where dead > 0 and step = 0 and type = '';

CREATE TABLE search_terms (
    term    text not null check (term <> ''),
    id      blob not null check (length(id) = 16),
    account blob not null check (length(account) = 16),
    primary key (term, id)
) strict, without rowid;

CREATE INDEX search_terms_account on search_terms (account, term);

CREATE INDEX search_terms_id on search_terms (id);

CREATE TABLE sessions (
    id              blob primary key check (length(id) = 16),
    kind            text not null check (kind in ('operator', 'portal')),
    name            text not null,
    subject         text not null,
    key             blob check (length(key) = 16),
    account         blob check (length(account) = 16),
    scopes          text not null check (json_type(scopes) = 'array'),
    options         text check (json_type(options) = 'array'),
    locale          text not null,
    embedded        integer not null check (embedded in (0, 1)),
    code            blob unique check (length(code) = 32),
    code_expires_at integer,
    hash            blob unique check (length(hash) = 32),
    created_at      integer not null,
    expires_at      integer not null,
    last_seen_at    integer,
    revoked_at      integer
) strict, without rowid;

CREATE INDEX sessions_account on sessions (account, id) where account is not null;

CREATE INDEX sessions_expires_at on sessions (expires_at);

CREATE INDEX sessions_key on sessions (key) where key is not null;

CREATE TABLE subscriptions (
    version integer not null,
    only    integer primary key default 1 check (only = 1)
) strict;

CREATE TABLE tables_noted (
    id          integer primary key check (id = 1),
    version     integer not null,
    fingerprint text not null,
    oldest      integer not null,
    facts       text not null
) strict;
