-- +goose Up
-- One statement to goose, which reads statement by statement with 4 MB of memory for each line.
-- +goose StatementBegin

-- Ids are the 16 bytes of a UUIDv7, times UTC microseconds, waits
-- microseconds. Every table is strict. Tables whose rows are short are stored
-- in the btree of their key (without rowid), which saves them a second one.

-- Who may do what.

-- The customers of the platform. Endpoints and events belong to one. deleted_at is
-- null until an account is deleted; its row stays, because its history names it. keep_ is
-- the account's own retention of events, attempts, bodies and idempotency keys in days; 0: the
-- server's. The key serves Accounts, newest first.
create table accounts (
    id            blob primary key check (length(id) = 16),
    uid           text check (uid <> ''),
    name          text not null,
    created_at    integer not null,
    deleted_at    integer,
    metadata      text check (json_type(metadata) = 'object'),
    revision      integer not null default 1 check (revision >= 1),
    keep_events   integer not null default 0 check (keep_events >= 0),
    keep_attempts integer not null default 0 check (keep_attempts >= 0),
    keep_bodies   integer not null default 0 check (keep_bodies >= 0),
    keep_keys     integer not null default 0 check (keep_keys >= 0)
) strict, without rowid;
-- Accounts by uid, which is unique among those that are not deleted.
create unique index accounts_uid on accounts (uid) where uid is not null and deleted_at is null;
-- DeleteEndpoints: the accounts whose endpoints must be deleted.
create index accounts_deleted on accounts (id) where deleted_at is not null;
-- Accounts with a retention of their own.
create index accounts_retention on accounts (id) where keep_events + keep_attempts + keep_bodies + keep_keys > 0;

-- What single accounts may use, where that is not the default: 0 is the default, -1 no
-- limit. version is what subscriptions.version was raised to by the last change. The key
-- serves PutQuotas and Quotas of one account.
create table quotas (
    account           blob primary key check (length(account) = 16),
    events_per_second integer not null,
    burst             integer not null,
    bytes_per_day     integer not null,
    endpoints         integer not null,
    backlog           integer not null,
    version           integer not null
) strict, without rowid;
-- Quotas: what changed after a version, in order.
create unique index quotas_version on quotas (version);

-- What accounts with a limit have used. events is how many events the account might
-- publish at the time at, which grows by rate up to burst; asked counts the events that
-- were ever published, refused ones too; bytes are of the day, which is its first instant.
-- The key serves SpendQuotas.
create table quota_use (
    account blob primary key check (length(account) = 16),
    rate    integer not null,
    burst   integer not null,
    events  real not null,
    at      integer not null,
    asked   integer not null,
    day     integer not null,
    bytes   integer not null
) strict, without rowid;

-- API keys; only the SHA-256 of a key is kept. account null: every account.
-- Its key serves Keys, RevokeKey and TouchKey; the unique hash serves every
-- request that is not answered from the API's cache.
create table api_keys (
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

-- DeleteAccount, and Keys by account: the keys of an account.
create index api_keys_account on api_keys (account) where account is not null;

-- Sessions of the pages; only SHA-256 are kept, of the token (hash; null: the one-time link
-- was not opened) and of the link's code. key null: no key issued it. account null: every
-- account. options null: all. The key serves Sessions, RevokeSession and TouchSession; the
-- unique hash serves every request that is not answered from a cache, the unique code
-- RedeemCode.
create table sessions (
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
-- RevokeKey: the sessions that a key issued.
create index sessions_key on sessions (key) where key is not null;
-- DeleteAccount, Sessions by account.
create index sessions_account on sessions (account, id) where account is not null;
-- DeleteOld: the sessions that have expired, the oldest first.
create index sessions_expires_at on sessions (expires_at);

-- The audit log: who did what. The id carries the time, and its key serves AuditEntries,
-- newest first. key and session null: the caller has none; account and object_id null: the
-- action has none. details is a JSON object.
create table audit (
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
-- AuditEntries by account, by key, by session, by action and by object.
create index audit_account on audit (account, id) where account is not null;
create index audit_key on audit (key, id) where key is not null;
create index audit_session on audit (session, id) where session is not null;
create index audit_action on audit (action, id);
create index audit_object on audit (object_id, id) where object_id is not null;
-- No statement changes an entry, not even one that somebody types.
create trigger audit_is_final before update on audit begin select raise(abort, 'audit entries never change'); end;

-- One row: the settings of the customer portal. options null: the standard ones; logo is a
-- PNG, logo_hash its SHA-256, both null: there is none.
create table portal (
    name          text not null,
    colour        text not null,
    frame_origins text not null check (json_type(frame_origins) = 'array'),
    options       text check (json_type(options) = 'array'),
    logo          blob check (length(logo) > 0),
    logo_hash     blob check (length(logo_hash) = 32),
    updated_at    integer,
    only          integer primary key default 1 check (only = 1)
) strict;
insert into portal (name, colour, frame_origins) values ('', '', '[]');

-- Where notices are sent. No row says what was sent: told_until does, notices with lesser
-- ids are told. account null: the operator's, for the notices of all accounts. kinds null:
-- all. unsubscribed has the kinds that its reader does not want; *: all. confirmed_at null:
-- it gets nothing but the message that asks for it. refused_at: when the server refused the
-- address for good. ask is the message that a person asked for. token null: it is not
-- leased. due_at: the earliest time of the next message, or the end of the lease. The key
-- serves Destinations, ChangeDestination and SettleDestination.
create table notice_destinations (
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
-- PutDestination: an address is there once, and how many an account has.
create unique index notice_destinations_address on notice_destinations (ifnull(account, x''), channel, address);
-- Destinations of an account, newest first; DeleteAccount.
create index notice_destinations_account on notice_destinations (account, id) where account is not null;
-- PutDestination: how many operators have.
create index notice_destinations_operator on notice_destinations (id) where account is null;
-- ClaimDestinations.
create index notice_destinations_due on notice_destinations (channel, due_at) where refused_at is null;

-- The catalogue of event types. It documents; it does not restrict. paths are those by whose values
-- events are found, each with the time since when; null: none.
create table event_types (
    name        text primary key,
    description text not null,
    example     text not null, -- JSON, its bytes as they were given; empty: none
    revision    integer not null default 1 check (revision >= 1),
    created_at  integer not null,
    paths       text check (json_type(paths) = 'object')
) strict, without rowid;
-- EventTypes and Changes: the types that have paths.
create index event_types_paths on event_types (name) where paths is not null;

-- The outboxes of producers from which events are read. password is encrypted, null: none; keep is how long the
-- producer keeps read rows, in microseconds; mapping is the document of store.EncodeSourceTable, null: the tables are
-- those of postrider outbox install. cycle counts the batches that were read; the rows that were published before
-- moved_until are gone from the producer's waiting rows. What follows is what the reader knew at state_at, null:
-- nothing yet. The key serves PutSource, DeleteSource, AdvanceSource and NoteSource.
create table sources (
    id          blob primary key check (length(id) = 16),
    name        text not null,
    url         text not null,
    password    blob check (length(password) > 0),
    ca          text not null,
    keep        integer not null check (keep >= 0),
    paused      integer not null check (paused in (0, 1)),
    mapping     text check (json_valid(mapping)),
    created_at  integer not null,
    cycle       integer not null default 0 check (cycle >= 0),
    moved_until integer,
    state_at    integer,
    node        text not null default '',
    error       text not null default '',
    error_since integer,
    waiting     integer not null default 0 check (waiting >= 0),
    oldest      integer,
    open_since  integer,
    rejected    integer not null default 0 check (rejected >= 0),
    missing     integer not null default 0 check (missing >= 0)
) strict;
-- PutSource: a name is there once. Sources, by name.
create unique index sources_name on sources (name);

-- Where to send.

-- One row: the number of changes of endpoints and secrets.
create table subscriptions (
    version integer not null,
    only    integer primary key default 1 check (only = 1)
) strict;
insert into subscriptions (version) values (0);

-- One row: whether the store is held, because it was restored from a backup. since null: it
-- is not. last_event is the last event before the hold; null: there was none. New sequences are
-- above sequences: PutHold sets it to the time, which is more than any sequence that was given
-- to an event that the backup does not have.
create table hold (
    since      integer,
    reason     text not null,
    last_event blob check (length(last_event) = 16),
    sequences  integer not null default 0,
    only       integer primary key default 1 check (only = 1)
) strict;
insert into hold (reason) values ('');

-- Where events are sent, which types are subscribed to, and the policy of sending. policy
-- is the document of store.EncodePolicy; version is what subscriptions.version was raised to
-- by the endpoint's last change; credentials are encrypted, null: there are none; full_since
-- is since when as many deliveries wait as the account may have, null: fewer do; metadata
-- is what the platform noted of it, null: nothing, as with accounts; subscribed_at is when event_types, or
-- what else selects events, changed last, null: when the endpoint was created.
create table endpoints (
    id            blob primary key check (length(id) = 16),
    account       blob not null check (length(account) = 16),
    kind          text not null check (kind in ('http', 'inspector')),
    uid           text check (uid <> ''),
    url           text not null,
    description   text not null,
    metadata      text check (json_type(metadata) = 'object'),
    event_types   text not null check (json_type(event_types) = 'array'),
    status        text not null check (status in ('enabled', 'paused', 'disabled', 'deleted')),
    status_reason text not null,
    status_since  integer not null,
    policy        text not null check (json_valid(policy)),
    credentials   blob check (length(credentials) > 0),
    full_since    integer,
    verified_at   integer,
    subscribed_at integer,
    revision      integer not null check (revision >= 1),
    version       integer not null,
    created_at    integer not null,
    updated_at    integer not null
) strict;
-- Endpoints by uid, which is unique among those of an account that are not deleted.
create unique index endpoints_uid on endpoints (account, uid) where uid is not null and status <> 'deleted';
-- Changes: what changed after a version, in order.
create unique index endpoints_version on endpoints (version);
-- Endpoints of an account, newest first. DeleteEndpoints: those of a deleted one.
create index endpoints_account on endpoints (account, id) where status <> 'deleted';
-- CancelDeleted: the endpoints whose queue must be emptied.
create index endpoints_deleted on endpoints (id) where status = 'deleted';
-- EncryptedValues: the endpoints that have credentials.
create index endpoints_credentials on endpoints (id) where credentials is not null;
-- EndpointBacklogs: the endpoints that are marked as full. Others are not in it.
create index endpoints_full on endpoints (id) where full_since is not null and status <> 'deleted';

-- Requests that inspector endpoints got: the newest hundred of each, for a day. The id
-- carries the time. document has the header and the verdicts, by
-- store.EncodeInspection; body is the beginning of the body, body_bytes the length of
-- all of it. The key serves ForgetInspections, and one by its id.
create table inspections (
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
-- Inspections: those of an endpoint, newest first. PutInspection: those that are too
-- many.
create index inspections_endpoint on inspections (endpoint, id);

-- The texts by which people find accounts and endpoints: parts of names and URLs,
-- lower-case; and the hashes of their metadata. Written with each account and endpoint.
-- id is the endpoint's; of an account, the same as account. The key serves Find: the
-- terms that begin with a text; and Accounts and Endpoints: those with some metadata.
create table search_terms (
    term    text not null check (term <> ''),
    id      blob not null check (length(id) = 16),
    account blob not null check (length(account) = 16),
    primary key (term, id)
) strict, without rowid;
-- Find, Endpoints: the terms of one account.
create index search_terms_account on search_terms (account, term);
-- PutAccount, PutEndpoint: the terms that are replaced.
create index search_terms_id on search_terms (id);

-- The secrets that sign an endpoint's requests; several during a rotation.
-- public is the public key of a private key; null: the secret is symmetric.
create table endpoint_secrets (
    id         blob primary key check (length(id) = 16),
    endpoint   blob not null references endpoints (id),
    encrypted  blob not null check (length(encrypted) > 0),
    public     text check (public <> ''),
    created_at integer not null,
    expires_at integer
) strict, without rowid;
-- Secrets and Changes: the secrets of an endpoint, newest first. EncryptedValues: all of them.
create index endpoint_secrets_endpoint on endpoint_secrets (endpoint, id);
-- PublicKeys: newest first.
create index endpoint_secrets_public on endpoint_secrets (id) where public is not null;

-- At most one row: the text of the keyring that encrypts secrets and
-- credentials, or the note that the server has it from outside.
create table keyring (
    text   blob not null check (length(text) > 0),
    single integer primary key default 1 check (single = 1)
) strict;

-- What was published.

-- What producers published: immutable bytes. Its rows are long, so they have
-- rowids and are stored in the order of their inserts. idempotency_key is null where the
-- producer gave none; it is found by the key of idempotency_keys. max_attempts is how many each
-- delivery has at most; 0: as many as the policy of the endpoint says. about is the trace
-- and the span that the producer published the event in, 16 bytes and 8, the text of its
-- tracestate, and what the event says of itself: see store.EncodeAbout; null: neither.
create table events (
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
    about        blob check (length(about) >= 24),
    created_at   integer not null,
    constraint events_order check ((ordering_key = '') = (sequence = 0))
) strict;
-- Events of an account, newest first. OldRows.
create index events_account on events (account, id);
-- Events of an ordering key, newest first. Events without a key are not in it and cost nothing.
create index events_order on events (account, ordering_key, id) where ordering_key <> '';

-- The terms of events whose type names paths: hashes of values of their data. id is that of the event.
-- The key serves FindEvents.
create table event_terms (
    term integer not null,
    id   blob not null check (length(id) = 16),
    primary key (term, id)
) strict, without rowid;
-- DeleteOld, DeleteRows and ExpungeRows: the terms of an event that is deleted.
create index event_terms_id on event_terms (id);

-- The event that owns a key, and the hash of its content. Its key serves
-- Publish, Events of one idempotency key, and Find, which knows the key alone.
create table idempotency_keys (
    account    blob not null check (length(account) = 16),
    key        text not null,
    event      blob not null check (length(event) = 16),
    hash       blob not null check (length(hash) = 32),
    created_at integer not null,
    primary key (key, account)
) strict, without rowid;
-- ForgetKeys: the oldest keys.
create index idempotency_keys_created_at on idempotency_keys (created_at);

-- The rows of producers' outboxes from which events were read, with the event: the first one, if another has
-- its idempotency key. The key serves Publish, OutboxRows and AdvanceSource.
create table outbox_rows (
    id          blob primary key check (length(id) = 16),
    event       blob not null check (length(event) = 16),
    recorded_at integer not null
) strict, without rowid;
-- ForgetRows: the oldest.
create index outbox_rows_recorded_at on outbox_rows (recorded_at);

-- The last sequence of each ordering key. Its key serves Publish, and Find, which knows
-- the ordering key alone.
create table ordering_keys (
    account      blob not null check (length(account) = 16),
    ordering_key text not null,
    last         integer not null check (last >= 1),
    primary key (ordering_key, account)
) strict, without rowid;

-- Fan-out jobs: events whose deliveries are created in chunks. The last chunk deletes
-- the row. due_at is when the job is due; with a token, when its lease ends. created_at is the time of the publish, compared with
-- that of changes of subscriptions. Jobs are few, so ClaimFanOuts walks the key, oldest first.
create table fanouts (
    event      blob primary key check (length(event) = 16),
    account    blob not null check (length(account) = 16),
    type       text not null,
    up_to      blob not null check (length(up_to) = 16),
    cursor     blob not null check (length(cursor) = 16),
    token      integer check (token <> 0),
    due_at     integer not null,
    created_at integer not null
) strict, without rowid;

-- Pending deliveries.

-- One narrow row for each pending delivery. It is deleted when the delivery ends.
-- due_at is when the delivery is due; with a token, when its lease ends. claims is the number of the attempt under way, or else of the last one made;
-- losses counts leases in a row that ended without a settlement. lane: 0 first,
-- 1 retry, 2 bulk, 3 suspect. deaths_alone counts the processes in a row that
-- died while this was the only row of lane 3 that they had leased; after ParkedAfter of
-- them it is parked, with the greatest integer as due_at. The key serves Settle,
-- Release, MakeDue and Cancel.
-- Rows with an ordering_key are delivered by sequence. The lowest row of a key is its
-- head. Every other one, and the head while the key is paused, has the greatest
-- integer as due_at, so that no claim meets it. pauses: the key is paused if this row
-- becomes a dead letter.
-- The id of a delivery carries its event (see id.go), or else named_event is the event. event is
-- computed when it is read.
create table queue (
    id            blob primary key check (length(id) = 16),
    named_event   blob check (length(named_event) = 16),
    event         blob generated always as (coalesce(named_event, cast(substr(id, 1, 13) || x'000000' as blob))) virtual,
    endpoint      blob not null check (length(endpoint) = 16),
    account       blob not null check (length(account) = 16),
    type          text not null,
    lane          integer not null check (lane between 0 and 3),
    due_at        integer not null,
    claims        integer not null check (claims >= 0),
    step          integer not null default 0 check (step >= -1),
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
-- Claim: the longest due of an endpoint's lane. Due: a skip scan of the lanes.
create index queue_due on queue (endpoint, lane, due_at, id);
-- Deliveries of an event whose ids do not carry it. Other rows are not in it; they are a range of the key.
create index queue_event on queue (named_event, id) where named_event is not null;
-- Settle: the lowest row of an ordering key. OrderedKeys: a skip scan of the keys.
create index queue_order_key on queue (endpoint, ordering_key, sequence) where ordering_key is not null;
-- Expire: the ordered rows that have expired. Rows without an order are not in it and cost nothing.
create index queue_ordered_expires_at on queue (expires_at) where ordering_key is not null;
-- Deliveries of a replay job; ReplayJobs and ReplaysPending: how many are pending. Other rows are not in it.
create index queue_replay_job on queue (replay_job, id) where replay_job is not null;
-- Deliveries with Last: the pending replays of an event. Other rows are not in it.
create index queue_replays on queue (named_event, endpoint, id) where replayed_from is not null;

-- The ordering keys that a dead letter pauses at an endpoint. The pause ends when the
-- dead letter is replayed or discarded. Its key serves Publish, FanOut and OrderedKeys, the unique
-- delivery Replay and Discard.
create table paused_keys (
    endpoint     blob not null check (length(endpoint) = 16),
    ordering_key text not null check (ordering_key <> ''),
    delivery     blob not null unique check (length(delivery) = 16),
    since        integer not null,
    primary key (endpoint, ordering_key)
) strict, without rowid;

-- The circuits of endpoints: a row for each endpoint whose circuit was ever stored. An
-- instant that does not apply is null. Nothing is sent before paced_until, because
-- the receiver asked for that with Retry-After; rate_full_at is the state of
-- the endpoint's rate; failures counts those in a row; last_outcome is empty
-- before the first attempt. Its key serves PutCircuit, Circuits and Changes.
create table circuits (
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
    generation    integer not null check (generation >= 1),
    changed_at    integer not null
) strict, without rowid;
-- HealthInputs: endpoints that have been failing.
create index circuits_failing on circuits (endpoint) where failing_since is not null;

-- What happened.

-- One row for each request, and for each decision without one (outcome none).
-- named_event and event are as in queue.
-- Append-only, except that a lost attempt is replaced when the response is settled after all. Its key
-- serves Attempts of a delivery, and Settle: a settlement that is repeated
-- meets its first record there. error is a class; of a decision, its reason.
-- final_url is where redirects led to; null: there were none.
-- timing has the parts of the duration, by store.EncodeTiming; null: no request was
-- begun.
-- The checks of outcome and status_after are chains of or, the commonest first:
-- as lists they would be looked up in a table of their own, and took half of
-- the 17 us of CPU that a row costs, its four btrees included (2026-11). With
-- rowids, which need a fifth one, a row took 20 us.
create table attempts (
    delivery       blob not null check (length(delivery) = 16),
    number         integer not null check (number >= 0),
    named_event    blob check (length(named_event) = 16),
    event          blob generated always as (coalesce(named_event, cast(substr(delivery, 1, 13) || x'000000' as blob))) virtual,
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
-- Deliveries of an endpoint, newest first.
create index attempts_endpoint on attempts (endpoint, delivery);
-- Deliveries of an account, newest first. OldRows.
create index attempts_account on attempts (account, delivery);
-- Deliveries and Attempts of an event whose ids do not carry it. Other rows are not in it; they are a range of the key.
create index attempts_event on attempts (named_event, delivery) where named_event is not null;
-- Deliveries that were skipped or cancelled: of an endpoint, of an account, all.
-- Among many others they would be found only by looking at each one. Requests
-- are not in these indexes.
create index attempts_decided_endpoint on attempts (endpoint, status_after, delivery) where outcome = 'none';
create index attempts_decided_account on attempts (account, status_after, delivery) where outcome = 'none';
create index attempts_decided on attempts (status_after, delivery) where outcome = 'none';
-- Deliveries of a replay job; ReplayJobs: how many were cancelled. Other rows are not in it.
create index attempts_replay_job on attempts (replay_job, delivery) where replay_job is not null;
create index attempts_replay_job_decided on attempts (replay_job) where replay_job is not null and outcome = 'none';
-- Deliveries with Last: the replays of an event that have ended. Other rows are not in it.
create index attempts_replays on attempts (named_event, endpoint, delivery) where replayed_from is not null;

-- Heads and bodies of attempts that attempts.response_start cannot hold. The rows
-- are long, so they have rowids.
create table attempt_bodies (
    delivery      blob not null check (length(delivery) = 16),
    number        integer not null,
    request_head  blob,
    response_head blob,
    response_body blob,
    primary key (delivery, number)
) strict;

-- Deliveries that died and wait for a person, and what the person did. Resolving a
-- dead letter keeps its row. The key serves the list of all.
create table dead_letters (
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
-- DeadLetters and Deliveries of an endpoint, newest first.
create index dead_letters_endpoint on dead_letters (endpoint, delivery);
-- DeadLetters and Deliveries of an account, newest first.
create index dead_letters_account on dead_letters (account, delivery);
-- Deliveries of an event.
create index dead_letters_event on dead_letters (event);
-- DeadLetters of a reason: of an account, and all.
create index dead_letters_reason_account on dead_letters (account, reason, delivery);
create index dead_letters_reason on dead_letters (reason, delivery);
-- DeadLetterGroups: a skip scan of the endpoints and causes, and the count of each.
-- Backlog: those of all, of an account or of an endpoint. resolved_at is always null in it,
-- and is there so that a count need not look at the rows: SQLite does not conclude it from
-- the condition.
create index dead_letters_unresolved on dead_letters (account, endpoint, reason, last_status_code, last_error, delivery, resolved_at)
    where resolved_at is null;
-- DeleteOld: the resolved ones, oldest first.
create index dead_letters_resolved on dead_letters (resolved_at) where resolved_at is not null;
-- Deliveries of a replay job; ReplayJobs: how many died. Other rows are not in it.
create index dead_letters_replay_job on dead_letters (replay_job, delivery) where replay_job is not null;
-- Deliveries with Last: the replays of an event that died. Other rows are not in it.
create index dead_letters_replays on dead_letters (event, endpoint, delivery) where replayed_from is not null;

-- Jobs that replay or discard what a filter selects. Ended ones stay. due_at is when the job is
-- due; with a token, when its lease ends. filter is the document of
-- store.EncodeReplayFilter; backfills is the endpoint of a backfill, which makes first deliveries of old events;
-- cursor is the last delivery that is done (of a backfill, the last event), but for those of the
-- endpoints in held, the document of store.EncodeHeld; expected is the number of matches that was counted when the
-- job was made, with expected_exact. The key serves the list of all, SetReplayJob and ReplayChunk.
create table replay_jobs (
    id              blob primary key check (length(id) = 16),
    account         blob check (length(account) = 16),
    action          text not null check (action in ('replay', 'discard', 'backfill')),
    backfills       blob check (length(backfills) = 16),
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
    constraint replay_jobs_ended check ((ended_at is null) = (status in ('running', 'paused'))),
    constraint replay_jobs_backfills check ((backfills is not null) = (action = 'backfill'))
) strict, without rowid;
-- PutReplayJob: an endpoint has at most one backfill that has not ended.
create unique index replay_jobs_backfills on replay_jobs (backfills) where backfills is not null and ended_at is null;
-- ReplayJobs of an account, newest first. Undelivered: whether another backfill has made deliveries to the endpoint.
create index replay_jobs_account on replay_jobs (account, id) where account is not null;
-- ClaimReplayJobs: the jobs that run. Ended ones are not in it.
create index replay_jobs_running on replay_jobs (id) where status = 'running';

-- What is archived, and the copies that people have fetched back.

-- The parts of the archive: objects with the rows of a kind whose ids were made on a day
-- (its first instant) and are after one id, up to another. With 0 bytes: a node is making the part,
-- or has died; row_count is then how many rows were removed meanwhile. deleted is how many of the
-- rows were deleted since; of a part of single rows all, from the beginning. While an archive is set,
-- DeleteOld deletes rows of a part only if as many rows with its ids are stored as the part counts
-- and were not deleted. The key serves all.
create table archive_parts (
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

-- The keys that the accounts' archives are encrypted with, themselves encrypted. Without its
-- key an account's archives cannot be read by anyone.
create table archive_keys (
    account   blob primary key check (length(account) = 16),
    encrypted blob not null check (length(encrypted) > 0)
) strict, without rowid;

-- At most one row: which node archives, and until when. until is a time of @now.
create table archive_lease (
    node   integer not null,
    until  integer not null,
    single integer primary key default 1 check (single = 1)
) strict;

-- Records that people have copied back from the archive: JSON. Nothing sends them. The key
-- serves RestoredRecords. number is 0 of an event, and endpoint the zero id.
create table restored_records (
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
-- RestoredRecords of an event, and of an account.
create index restored_records_event on restored_records (event, id, number, kind);
create index restored_records_account on restored_records (account, id, number, kind);
-- ForgetRestored: the oldest.
create index restored_records_at on restored_records (at);

-- Jobs that compare archived events with a change of a subscription: the last one of each account, for an hour
-- after changed_at, the end of its last step. document has what is compared, how far, and the result so far.
-- due_at is when the job is due; after a claim, when the lease ends; null: it has ended. The key serves all verbs of
-- WhatIfs but the claim.
create table what_ifs (
    account    blob primary key check (length(account) = 16),
    endpoint   blob not null check (length(endpoint) = 16),
    document   text not null check (json_valid(document)),
    token      integer check (token <> 0),
    due_at     integer,
    changed_at integer not null
) strict;
-- ClaimWhatIf: the job that has been due for longest. Ended ones are not in it.
create index what_ifs_due_at on what_ifs (due_at) where due_at is not null;
-- DeleteOld: the oldest.
create index what_ifs_changed_at on what_ifs (changed_at);

-- What was removed on request: an event, an endpoint, or else the account. A row stays as the proof: it has ids,
-- counts and postrider.ExpungeDigest of the events, which is zero when none was removed. empty_since is since when nothing
-- was found; null: something was found the last time. archive_day is the next day of ids to remove in the archive; null:
-- it has not begun there. archive_held: not all parts of the archive were there. archive_fault is why it did not go on there
-- the last time. outbox_uid is the uid of an account, which rows in the outboxes of producers may have, until the end;
-- outbox_rows were removed there, and outbox_fault says which could not be reached the last time. The key serves
-- ExpungeRows, NoteOutbox, NoteExpunge and the list of all.
create table expunges (
    id           blob primary key check (length(id) = 16),
    event        blob check (length(event) = 16),
    endpoint     blob check (length(endpoint) = 16),
    account      blob not null check (length(account) = 16),
    made_by      text not null,
    events       integer not null default 0 check (events >= 0),
    attempts     integer not null default 0 check (attempts >= 0),
    dead_letters integer not null default 0 check (dead_letters >= 0),
    terms        integer not null default 0 check (terms >= 0),
    subscriptions integer not null default 0 check (subscriptions >= 0),
    other        integer not null default 0 check (other >= 0),
    archived     integer not null default 0 check (archived >= 0),
    digest       blob not null default (zeroblob(32)) check (length(digest) = 32),
    empty_since  integer,
    archive_day  integer,
    archive_done integer not null default 0 check (archive_done in (0, 1)),
    archive_held integer not null default 0 check (archive_held in (0, 1)),
    archive_fault text not null default '',
    outbox_uid   text not null default '',
    outbox_rows  integer not null default 0 check (outbox_rows >= 0),
    outbox_fault text not null default '',
    created_at   integer not null,
    ended_at     integer
) strict, without rowid;
-- Expunges: those that go on. Ended ones are not in it.
create index expunges_running on expunges (id) where ended_at is null;

-- What is counted.

-- What a job has recorded (store.Deltas): one row for each job that records attempts or
-- ends deliveries, in its transaction. FoldRollups deletes the rows, oldest first.
create table rollup_deltas (
    id      integer primary key,
    at      integer not null,
    counted blob not null check (length(counted) > 0)
) strict;

-- What happened in a minute (step 0), an hour (1) or a day (2) from at on: to all
-- deliveries (scope is the zero id), those of an account or those of an endpoint; of all
-- types (type is empty) or of one. counts, responses and latencies are those of
-- store.RollupBytes; delivered and dead repeat what HealthInputs and EndpointStates need of
-- counts. The key serves these and Rollups, and a skip scan of the types of a scope.
create table rollups (
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
-- RollUp: what follows a position. ForgetRollups: the oldest of a step.
create index rollups_at on rollups (step, at, scope, type);
-- HealthInputs: a skip scan of the scopes in which deliveries died within the last two days.
create index rollups_dying on rollups (scope, at) where dead > 0 and step = 0 and type = '';

-- Up to where the rollups of a step were added to those of the next one, in the order of
-- rollups_at. One row for each step but days. The key serves all that reads them.
create table rollup_positions (
    step  integer primary key check (step between 0 and 1),
    at    integer not null,
    scope blob not null check (length(scope) = 16),
    type  text not null
) strict;
insert into rollup_positions (step, at, scope, type) values (0, 0, zeroblob(16), ''), (1, 0, zeroblob(16), '');

-- The health of endpoints over days: a row for each change. Append-only, but for last, which
-- says that the row is the newest one of its endpoint: PutHealth sets it, and clears it in
-- the row before. The key serves HealthHistory, HealthInputs and EndpointStates, from an
-- endpoint's newest back.
create table endpoint_health (
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
-- HealthInputs: the endpoints that are not healthy now. Endpoints: whether one is.
create index endpoint_health_unhealthy on endpoint_health (endpoint) where last and status <> 'healthy';
-- DeleteOld: the changes that are not the last ones, oldest first.
create index endpoint_health_past on endpoint_health (since) where not last;

-- What selected events for endpoints before a change: a row for each change, written with it. What selects
-- them now is in endpoints. selects is the document of store.EncodeSubscription. Append-only. The key
-- serves Subscription and PastSubscriptions: the one that was in force at a time.
create table past_subscriptions (
    endpoint blob not null references endpoints (id),
    since    integer not null,
    until    integer not null,
    selects  text not null check (json_valid(selects)),
    primary key (endpoint, until)
) strict, without rowid;
-- DeleteOld: those that ended first.
create index past_subscriptions_until on past_subscriptions (until);

-- What people should be told: a row for each notice. The id carries the time. account null:
-- for operators alone. object is the id of an endpoint or a replay job, or the name of a chore;
-- occurrence tells a notice from others of its kind and object. Append-only.
create table notices (
    id         blob primary key check (length(id) = 16),
    account    blob check (length(account) = 16),
    kind       text not null,
    object     text not null,
    occurrence text not null,
    details    text not null check (json_valid(details))
) strict, without rowid;
-- PutNotices: one notice for each fact.
create unique index notices_once on notices (kind, object, occurrence);
-- Notices by account, by kind and by object.
create index notices_account on notices (account, id) where account is not null;
create index notices_kind on notices (kind, id);
create index notices_object on notices (object, id);

-- NoticesPublished: one row. The last notice whose operational event was published, or needs
-- none; all zeros: none yet.
create table notices_published (
    last blob not null check (length(last) = 16)
) strict;
insert into notices_published values (zeroblob(16));

-- One row that each migration writes: which tables these are, so that a program of another
-- state refuses them. fingerprint is of the statements of all migrations up to the version;
-- programs that know the version oldest, or a later one, may use the tables; facts has the
-- columns and constraints, a line each.
create table tables_noted (
    id          integer primary key check (id = 1),
    version     integer not null,
    fingerprint text not null,
    oldest      integer not null,
    facts       text not null
) strict;

-- ProbeWrite: one row that is written in order to learn whether the store accepts
-- writes. padding fills a page of its own, so that a full disk is noticed.
create table probe (
    id      integer primary key check (id = 1),
    at      integer not null,
    padding blob not null
) strict;
-- +goose StatementEnd
