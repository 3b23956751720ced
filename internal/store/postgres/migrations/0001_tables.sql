-- +goose Up
-- One statement to goose, which reads statement by statement with 4 MB of memory for each line.
-- +goose StatementBegin

-- Who may do what.

create table accounts (
    id         uuid primary key,
    uid        text check (uid <> ''),
    name       text not null,
    created_at timestamptz not null,
    deleted_at timestamptz,
    metadata   jsonb,
    revision   bigint not null default 1 check (revision >= 1),
    keep_events   integer not null default 0 check (keep_events >= 0),
    keep_attempts integer not null default 0 check (keep_attempts >= 0),
    keep_bodies   integer not null default 0 check (keep_bodies >= 0),
    keep_keys     integer not null default 0 check (keep_keys >= 0)
);
create unique index accounts_uid on accounts (uid) where uid is not null and deleted_at is null;
create index accounts_deleted on accounts (id) where deleted_at is not null;
create index accounts_retention on accounts (id) where keep_events + keep_attempts + keep_bodies + keep_keys > 0;
comment on table accounts is 'The customers of the platform. Endpoints and events belong to one.';
comment on column accounts.uid is 'The platform''s own name for the account; null: none.';
comment on index accounts_pkey is 'Accounts: one by id, and the list, newest first.';
comment on column accounts.deleted_at is 'Null: it is not deleted. A deleted account keeps its row, because its history names it.';
comment on column accounts.metadata is 'What the platform noted of it; null: nothing.';
comment on column accounts.keep_events is 'Days that the account''s events are kept; 0: as long as the server keeps them.';
comment on column accounts.keep_attempts is 'Likewise its attempts.';
comment on column accounts.keep_bodies is 'Likewise heads and bodies of its attempts.';
comment on column accounts.keep_keys is 'Likewise its idempotency keys.';
comment on index accounts_retention is 'Accounts with a retention of their own.';
comment on index accounts_uid is 'Accounts by uid, which is unique among those that are not deleted.';
comment on index accounts_deleted is 'DeleteEndpoints: the accounts whose endpoints must be deleted.';

create table quotas (
    account           uuid primary key,
    events_per_second bigint not null,
    burst             bigint not null,
    bytes_per_day     bigint not null,
    endpoints         bigint not null,
    backlog           bigint not null,
    version           bigint not null
);
create unique index quotas_version on quotas (version);
comment on table quotas is 'What single accounts may use, where that is not the default: 0 is the default, -1 no limit.';
comment on column quotas.version is 'The version of the last change: what subscriptions.version was raised to.';
comment on index quotas_pkey is 'Quotas: those of one account. PutQuotas.';
comment on index quotas_version is 'Quotas: what changed after a version, in order.';

create table quota_use (
    account uuid primary key,
    rate    bigint not null,
    burst   bigint not null,
    events  double precision not null,
    at      timestamptz not null,
    asked   bigint not null,
    day     date not null,
    bytes   bigint not null
) with (fillfactor = 50);
comment on table quota_use is 'What accounts with a limit have used on all nodes. A row is written at most ten times a second by each node.';
comment on column quota_use.events is 'How many events the account might publish at the time at; it grows by rate up to burst.';
comment on column quota_use.asked is 'Events that were ever published, those that were refused among them.';
comment on column quota_use.bytes is 'Data of the events that were accepted on the day, of UTC.';
comment on index quota_use_pkey is 'SpendQuotas: the row of an account.';

create table api_keys (
    id           uuid primary key,
    name         text not null,
    hash         bytea not null unique check (octet_length(hash) = 32),
    scopes       text[] not null,
    account      uuid,
    created_at   timestamptz not null,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
create index api_keys_account on api_keys (account, id) where account is not null;
comment on table api_keys is 'API keys; only the SHA-256 of a key is kept.';
comment on column api_keys.account is 'Null: the key reaches every account.';
comment on index api_keys_pkey is 'Keys: the list, newest first; RevokeKey, TouchKey.';
comment on index api_keys_account is 'DeleteAccount, and Keys by account: the keys of an account.';
comment on index api_keys_hash_key is 'Keys by hash: every request that is not answered from the cache.';

create table sessions (
    id              uuid primary key,
    kind            text not null check (kind in ('operator', 'portal')),
    name            text not null,
    subject         text not null,
    key             uuid,
    account         uuid,
    scopes          text[] not null,
    options         text[],
    locale          text not null,
    embedded        boolean not null,
    code            bytea unique check (octet_length(code) = 32),
    code_expires_at timestamptz,
    hash            bytea unique check (octet_length(hash) = 32),
    created_at      timestamptz not null,
    expires_at      timestamptz not null,
    last_seen_at    timestamptz,
    revoked_at      timestamptz
);
create index sessions_key on sessions (key) where key is not null;
create index sessions_account on sessions (account, id) where account is not null;
create index sessions_expires_at on sessions (expires_at);
comment on table sessions is 'Sessions of the pages; only the SHA-256 of tokens and codes are kept.';
comment on column sessions.key is 'The key that issued the session; null: no key did.';
comment on column sessions.account is 'Null: the session reaches every account.';
comment on column sessions.options is 'The policy options that it may set; null: all.';
comment on column sessions.code is 'Of the one-time link; null: there is none.';
comment on column sessions.hash is 'Of the token; null: the link was not opened.';
comment on index sessions_pkey is 'Sessions: the list, newest first; RevokeSession, TouchSession.';
comment on index sessions_key is 'RevokeKey: the sessions that a key issued.';
comment on index sessions_account is 'DeleteAccount, Sessions by account.';
comment on index sessions_expires_at is 'DeleteOld: the sessions that have expired, the oldest first.';
comment on index sessions_code_key is 'RedeemCode.';
comment on index sessions_hash_key is 'Sessions by hash: every request that is not answered from a cache.';

create table audit (
    id        uuid primary key,
    action    text not null,
    outcome   text not null,
    key       uuid,
    session   uuid,
    name      text not null,
    account   uuid,
    object    text not null,
    object_id text,
    request   text not null,
    details   jsonb not null
);
create index audit_account on audit (account, id) where account is not null;
create index audit_key on audit (key, id) where key is not null;
create index audit_session on audit (session, id) where session is not null;
create index audit_action on audit (action, id);
create index audit_object on audit (object_id, id) where object_id is not null;
comment on table audit is 'The audit log: who did what. The id carries the time. A trigger refuses every change of an entry.';
comment on column audit.key is 'Of the caller; null: it has none.';
comment on column audit.session is 'Of the caller; null: it has none.';
comment on column audit.account is 'That the action was about; null: none, or several.';
comment on column audit.object_id is 'Null: the action has no object.';
comment on index audit_pkey is 'AuditEntries, newest first.';
comment on index audit_account is 'AuditEntries by account.';
comment on index audit_key is 'AuditEntries by key.';
comment on index audit_session is 'AuditEntries by session.';
comment on index audit_action is 'AuditEntries by action.';
comment on index audit_object is 'AuditEntries by object.';
-- No statement changes an entry, not even one that somebody types.
create function audit_is_final() returns trigger language plpgsql as $$
begin
    raise exception 'audit entries never change';
end $$;
create trigger audit_is_final before update on audit for each row execute function audit_is_final();

create table portal (
    name          text not null,
    colour        text not null,
    frame_origins text[] not null,
    options       text[],
    logo          bytea,
    logo_hash     bytea check (octet_length(logo_hash) = 32),
    updated_at    timestamptz,
    single        boolean primary key default true check (single)
);
comment on table portal is 'One row: the settings of the customer portal.';
comment on column portal.options is 'The policy options that portal sessions may set; null: the standard ones.';
comment on column portal.logo is 'A PNG; null: there is none.';
comment on index portal_pkey is 'Keeps the table to its one row.';
insert into portal (name, colour, frame_origins) values ('', '', '{}');

create table notice_destinations (
    id           uuid primary key,
    account      uuid,
    channel      text not null check (channel in ('email', 'slack')),
    address      text not null,
    language     text not null,
    kinds        text[],
    unsubscribed text[] not null,
    confirmed_at timestamptz,
    refused_at   timestamptz,
    ask          text not null check (ask in ('', 'confirmation', 'test')),
    told_until   uuid,
    last_sent_at timestamptz,
    failures     integer not null check (failures >= 0),
    last_error   text not null,
    token        bigint,
    due_at       timestamptz not null,
    check ((confirmed_at is null) = (told_until is null))
);
create unique index notice_destinations_address on notice_destinations (coalesce(account, '00000000-0000-0000-0000-000000000000'), channel, address);
create index notice_destinations_account on notice_destinations (account, id) where account is not null;
create index notice_destinations_operator on notice_destinations (id) where account is null;
create index notice_destinations_due on notice_destinations (channel, due_at) where refused_at is null;
comment on table notice_destinations is 'Where notices are sent. No row says what was sent: told_until does.';
comment on column notice_destinations.account is 'Null: the operator''s, for the notices of all accounts.';
comment on column notice_destinations.kinds is 'The kinds of notices that it gets; null: all.';
comment on column notice_destinations.unsubscribed is 'The kinds that its reader does not want; *: all.';
comment on column notice_destinations.confirmed_at is 'Null: it gets nothing but the message that asks for it.';
comment on column notice_destinations.refused_at is 'When the server refused the address for good; null: it did not.';
comment on column notice_destinations.ask is 'The message that a person asked for.';
comment on column notice_destinations.told_until is 'Notices with lesser ids are told.';
comment on column notice_destinations.token is 'Of the lease; null: it is not leased.';
comment on column notice_destinations.due_at is 'The earliest time of the next message, or the end of the lease.';
comment on index notice_destinations_pkey is 'Destinations: one by id, and the list of all; ChangeDestination, SettleDestination.';
comment on index notice_destinations_address is 'PutDestination: an address is there once.';
comment on index notice_destinations_account is 'Destinations of an account; PutDestination: how many it has; DeleteAccount.';
comment on index notice_destinations_operator is 'Destinations of the operator; PutDestination: how many there are.';
comment on index notice_destinations_due is 'ClaimDestinations.';

create table event_types (
    name        text collate "C" primary key,
    description text not null,
    example     text not null, -- JSON, its bytes as they were given; empty: none
    revision    bigint not null default 1 check (revision >= 1),
    created_at  timestamptz not null,
    paths       jsonb
);
create index event_types_paths on event_types (name) where paths is not null;
comment on table event_types is 'The catalogue of event types. It documents, and says by which values events are found; it does not restrict.';
comment on column event_types.paths is 'The paths by whose values events are found, each with the time since when; null: none.';
comment on index event_types_pkey is 'EventTypes: the list by name.';
comment on index event_types_paths is 'EventTypes and Changes: the types that have paths.';

create table sources (
    id          uuid primary key,
    name        text collate "C" not null,
    url         text not null,
    password    bytea check (octet_length(password) > 0),
    ca          text not null,
    keep        bigint not null check (keep >= 0),
    paused      boolean not null,
    mapping     text,
    created_at  timestamptz not null,
    cycle       bigint not null default 0 check (cycle >= 0),
    moved_until timestamptz,
    state_at    timestamptz,
    node        text not null default '',
    error       text not null default '',
    error_since timestamptz,
    waiting     bigint not null default 0 check (waiting >= 0),
    oldest      timestamptz,
    open_since  timestamptz,
    rejected    bigint not null default 0 check (rejected >= 0),
    missing     bigint not null default 0 check (missing >= 0)
) with (fillfactor = 70);
create unique index sources_name on sources (name);
comment on table sources is 'The outboxes of producers from which events are read, with what their readers know.';
comment on column sources.password is 'Encrypted; null: there is none.';
comment on column sources.keep is 'How long the producer keeps read rows, in microseconds.';
comment on column sources.mapping is 'The document of store.EncodeSourceTable; null: the tables are those of postrider outbox install.';
comment on column sources.cycle is 'Counts the batches that were read.';
comment on column sources.moved_until is 'The rows that were published before are gone from the producer''s waiting rows; null: nothing is known.';
comment on column sources.state_at is 'When the columns after it were written; null: never.';
comment on index sources_pkey is 'PutSource, DeleteSource, AdvanceSource, NoteSource.';
comment on index sources_name is 'PutSource: a name is there once. Sources, by name.';

-- Where to send.

create table subscriptions (
    version bigint not null,
    single  boolean primary key default true check (single)
);
comment on table subscriptions is 'One row: the number of changes of endpoints and secrets. A change locks the row until its commit, so versions become visible in their order.';
comment on index subscriptions_pkey is 'Keeps the table to its one row.';
insert into subscriptions (version) values (0);

create table hold (
    since      timestamptz,
    reason     text not null default '',
    last_event uuid,
    timeline   text,
    sequences  bigint not null default 0,
    single     boolean primary key default true check (single)
);
comment on table hold is 'One row: whether the store is held, because it was restored from a backup. Then no delivery is claimed.';
comment on column hold.since is 'Null: the store is not held.';
comment on column hold.last_event is 'The last event before the hold; null: there was none.';
comment on column hold.timeline is 'The timeline of the server at the last start of a node; another one says that the server was recovered or promoted. Null: it is not known.';
comment on column hold.sequences is 'New sequences are above it. PutHold sets it to the time, in microseconds since 1970: more than any sequence that was given to an event which the backup does not have.';
comment on index hold_pkey is 'Publish of ordered events, Claim, Changes, Held, PutHold, Resume. Keeps the table to its one row.';
insert into hold default values;

create table endpoints (
    id            uuid primary key,
    account       uuid not null,
    kind          text not null check (kind in ('http', 'inspector')),
    uid           text check (uid <> ''),
    url           text not null,
    description   text not null,
    metadata      jsonb,
    event_types   text[] not null,
    status        text not null check (status in ('enabled', 'paused', 'disabled', 'deleted')),
    status_reason text not null,
    status_since  timestamptz not null,
    policy        text not null,
    credentials   bytea check (octet_length(credentials) > 0),
    full_since    timestamptz,
    verified_at   timestamptz,
    subscribed_at timestamptz,
    revision      bigint not null check (revision >= 1),
    version       bigint not null,
    created_at    timestamptz not null,
    updated_at    timestamptz not null
);
create unique index endpoints_uid on endpoints (account, uid) where uid is not null and status <> 'deleted';
create unique index endpoints_version on endpoints (version);
create index endpoints_account on endpoints (account, id) where status <> 'deleted';
create index endpoints_deleted on endpoints (id) where status = 'deleted';
create index endpoints_credentials on endpoints (id) where credentials is not null;
create index endpoints_full on endpoints (id) where full_since is not null and status <> 'deleted';
comment on table endpoints is 'Where events are sent, which types are subscribed to, and the policy of sending.';
comment on column endpoints.kind is 'It never changes. An inspector has no URL.';
comment on column endpoints.metadata is 'What the platform noted of it; null: nothing.';
comment on column endpoints.policy is 'The JSON document of store.EncodePolicy.';
comment on column endpoints.credentials is 'Encrypted; null: there are none.';
comment on column endpoints.full_since is 'Since when as many deliveries wait as the account may have; null: fewer do. MarkFull writes it.';
comment on column endpoints.verified_at is 'When its owner proved that this URL wants events; null: never.';
comment on column endpoints.subscribed_at is 'When its event types, or what else selects events, changed last; null: when it was created.';
comment on column endpoints.version is 'The version of the endpoint''s last change: what subscriptions.version was raised to.';
comment on index endpoints_pkey is 'Endpoints: one by id, and the list of all, newest first.';
comment on index endpoints_uid is 'Endpoints by uid, which is unique among those of an account that are not deleted.';
comment on index endpoints_version is 'Changes: what changed after a version, in order.';
comment on index endpoints_account is 'Endpoints of an account, newest first. DeleteEndpoints: those of a deleted one.';
comment on index endpoints_deleted is 'CancelDeleted: the endpoints whose queue must be emptied.';
comment on index endpoints_credentials is 'EncryptedValues: the endpoints that have credentials. Reencrypt: one.';
comment on index endpoints_full is 'EndpointBacklogs: the endpoints that are marked as full. Others are not in it.';

create table inspections (
    id         uuid primary key,
    endpoint   uuid not null,
    delivery   uuid not null,
    event      uuid not null,
    type       text not null,
    attempt    integer not null check (attempt >= 1),
    document   text not null,
    body       bytea check (octet_length(body) <= 262144),
    body_bytes integer not null check (body_bytes >= 0)
);
create index inspections_endpoint on inspections (endpoint, id);
comment on table inspections is 'Requests that inspector endpoints got: the newest hundred of each, for a day. The id carries the time.';
comment on column inspections.document is 'The header and the verdicts, by store.EncodeInspection.';
comment on column inspections.body is 'The beginning of the body, not compressed.';
comment on column inspections.body_bytes is 'Length of the whole body.';
comment on index inspections_pkey is 'ForgetInspections: the oldest. Inspections: one by id.';
comment on index inspections_endpoint is 'Inspections: those of an endpoint, newest first. PutInspection: those that are too many.';

create table search_terms (
    term    text collate "C" not null check (term <> ''),
    id      uuid not null,
    account uuid not null,
    primary key (term, id)
);
create index search_terms_account on search_terms (account, term, id);
create index search_terms_id on search_terms (id);
comment on table search_terms is 'The texts by which people find accounts and endpoints: parts of names and URLs, lower-case; and the hashes of their metadata. Written with each account and endpoint.';
comment on column search_terms.id is 'Of the endpoint; of an account, the same as account.';
comment on index search_terms_pkey is 'Find: the terms that begin with a text. Accounts, Endpoints: those with some metadata, newest first.';
comment on index search_terms_account is 'Find, Endpoints: those of one account.';
comment on index search_terms_id is 'PutAccount, PutEndpoint: the terms that are replaced.';

create table endpoint_secrets (
    id         uuid primary key,
    endpoint   uuid not null references endpoints (id),
    encrypted  bytea not null check (octet_length(encrypted) > 0),
    public     text check (public <> ''),
    created_at timestamptz not null,
    expires_at timestamptz
);
create index endpoint_secrets_endpoint on endpoint_secrets (endpoint, id);
create index endpoint_secrets_public on endpoint_secrets (id) where public is not null;
comment on table endpoint_secrets is 'The secrets that sign an endpoint''s requests; several during a rotation.';
comment on column endpoint_secrets.public is 'The public key of a private key; null: the secret is symmetric.';
comment on index endpoint_secrets_pkey is 'RevokeSecret: one.';
comment on index endpoint_secrets_endpoint is 'Secrets and Changes: the secrets of an endpoint, newest first. EncryptedValues: all of them. Reencrypt: one.';
comment on index endpoint_secrets_public is 'PublicKeys: newest first.';

create table keyring (
    text   bytea not null check (octet_length(text) > 0),
    single boolean primary key default true check (single)
);
comment on table keyring is 'At most one row: the text of the keyring that encrypts secrets and credentials, or the note that each server has it from outside.';
comment on index keyring_pkey is 'Keyring and SwapKeyring. Keeps the table to its one row.';

create table circuits (
    endpoint      uuid primary key references endpoints (id),
    status        text not null check (status in ('closed', 'open', 'half_open')),
    reason        text not null,
    opened_at     timestamptz,
    probe_at      timestamptz,
    cooldown      bigint not null check (cooldown >= 0),
    failing_since timestamptz,
    paced_until   timestamptz,
    rate_full_at  timestamptz,
    failures      integer not null check (failures >= 0),
    last_attempt_at timestamptz,
    last_outcome  text not null,
    generation    bigint not null check (generation >= 1),
    changed_at    timestamptz not null
);
create index circuits_failing on circuits (endpoint) where failing_since is not null;
comment on table circuits is 'The circuits of endpoints. An endpoint whose circuit never changed has no row. Written by compare-and-swap of generation.';
comment on column circuits.cooldown is 'Microseconds.';
comment on column circuits.paced_until is 'Nothing is sent before this time, because the receiver asked for that with Retry-After; null: it did not.';
comment on column circuits.rate_full_at is 'The state of the endpoint''s rate: when its token bucket is full again.';
comment on column circuits.failures is 'Failures in a row, when the circuit was stored.';
comment on column circuits.last_outcome is 'Empty: no attempt was made before the row was stored.';
comment on index circuits_pkey is 'PutCircuit and Changes: one. Circuits: the list.';
comment on index circuits_failing is 'HealthInputs: the endpoints that accept nothing.';

create table endpoint_health (
    endpoint uuid not null references endpoints (id),
    number   bigint not null check (number >= 1),
    account  uuid not null,
    status   text not null check (status in ('healthy', 'warned', 'disabled')),
    reason   text not null,
    warnings integer not null check (warnings >= 0),
    since    timestamptz not null,
    last     boolean not null,
    primary key (endpoint, number)
);
create index endpoint_health_unhealthy on endpoint_health (endpoint) where last and status <> 'healthy';
create index endpoint_health_past on endpoint_health (since) where not last;
comment on table endpoint_health is 'The health of endpoints over days: a row for each change. Append-only, but for last.';
comment on column endpoint_health.last is 'Whether the row is the newest one of its endpoint. PutHealth sets it, and clears it in the row before.';
comment on index endpoint_health_pkey is 'HealthHistory: the changes of an endpoint, newest first. HealthInputs and EndpointStates: the last one. PutHealth: each number exists once.';
comment on index endpoint_health_past is 'DeleteOld: the changes that are not the last ones, oldest first.';
comment on index endpoint_health_unhealthy is 'HealthInputs: the endpoints that are not healthy now. Endpoints: whether one is.';

create table past_subscriptions (
    endpoint uuid not null references endpoints (id),
    since    timestamptz not null,
    until    timestamptz not null,
    selects  text not null,
    primary key (endpoint, until)
);
create index past_subscriptions_until on past_subscriptions (until);
comment on table past_subscriptions is 'What selected events for endpoints before a change: a row for each change, written with it. What selects them now is in endpoints. Append-only.';
comment on column past_subscriptions.selects is 'The JSON document of store.EncodeSubscription.';
comment on index past_subscriptions_pkey is 'Subscription, PastSubscriptions: the one that was in force at a time.';
comment on index past_subscriptions_until is 'DeleteOld: those that ended first.';

create table notices (
    id         uuid primary key,
    account    uuid,
    kind       text not null,
    object     text not null,
    occurrence text not null,
    details    jsonb not null
);
create unique index notices_once on notices (kind, object, occurrence);
create index notices_account on notices (account, id) where account is not null;
create index notices_kind on notices (kind, id);
create index notices_object on notices (object, id);
comment on table notices is 'What people should be told: a row for each notice. The id carries the time. Append-only.';
comment on column notices.account is 'Whose notice it is; null: for operators alone.';
comment on column notices.object is 'Id of an endpoint or a replay job, or name of a chore.';
comment on column notices.occurrence is 'Tells it from other notices of its kind and object.';
comment on index notices_pkey is 'Notices, newest or oldest first. DeleteOld: the oldest.';
comment on index notices_once is 'PutNotices: one notice for each fact, whichever nodes saw it.';
comment on index notices_account is 'Notices by account.';
comment on index notices_kind is 'Notices by kind.';
comment on index notices_object is 'Notices by object.';

create table notices_published (
    last uuid not null
);
insert into notices_published values ('00000000-0000-0000-0000-000000000000');
comment on table notices_published is 'NoticesPublished: one row.';
comment on column notices_published.last is 'The last notice whose operational event was published, or needs none. All zeros: none yet.';

create table probe (
    id integer primary key check (id = 1),
    at timestamptz not null
);
comment on table probe is 'ProbeWrite: one row that is written in order to learn whether the database accepts writes.';
comment on index probe_pkey is 'ProbeWrite: the row.';

create table tables_noted (
    id          integer primary key check (id = 1),
    version     bigint not null,
    fingerprint text not null,
    oldest      bigint not null,
    facts       text not null
);
comment on table tables_noted is 'One row that each migration writes: which tables these are, so that a program of another state refuses them.';
comment on column tables_noted.fingerprint is 'Of the statements of all migrations up to the version.';
comment on column tables_noted.oldest is 'Programs that know this version of the tables, or a later one, may use them.';
comment on column tables_noted.facts is 'The columns and constraints, a line each.';
comment on index tables_noted_pkey is 'CheckTables: the row.';

-- Which nodes are alive, and which shards each of them owns.

create table nodes (
    incarnation bigint primary key check (incarnation between 0 and 4294967295),
    instance    bytea not null check (octet_length(instance) = 16),
    host        text not null,
    address     text not null,
    public_key  bytea not null check (octet_length(public_key) = 32),
    seen_at     timestamptz not null,
    ttl         bigint not null check (ttl > 0),
    leaving     boolean not null,
    started_at  timestamptz not null,
    locked_on   timestamptz,
    free_since  timestamptz
);
comment on table nodes is 'The nodes that are alive, and the dead ones that are not reclaimed yet.';
comment on column nodes.host is 'Name of its machine, for people. Written by its first heartbeat; empty: the machine has none.';
comment on column nodes.address is 'Where other nodes reach it, host:port. Written by its first heartbeat; empty: nowhere.';
comment on column nodes.public_key is 'SHA-256 of the public key by which it proves to other nodes who it is. Written by its first heartbeat.';
comment on column nodes.locked_on is 'When the server was started on which the node has its lock; null: it has none, and ttl alone decides.';
comment on column nodes.free_since is 'Since when other nodes see the lock of this node free, without a heartbeat of it in between; null: they see it held.';
comment on column nodes.ttl is 'Microseconds after seen_at at which the node is dead.';
comment on index nodes_pkey is 'Heartbeat, Reclaim, Forget: one node; the membership of all.';

create table clock (
    ahead   bigint not null,
    version bigint not null,
    single  boolean primary key default true check (single)
);
comment on table clock is 'One row: the adjustment that keeps the time of the nodes steady when the clock of the database is stepped. Written by compare-and-swap of version.';
comment on column clock.ahead is 'Microseconds by which the time that decides what is due is ahead of the time of day.';
comment on index clock_pkey is 'Now. Keeps the table to its one row.';
insert into clock (ahead, version) values (0, 1);

create table shards (
    shard smallint primary key check (shard between 0 and 255),
    owner bigint
);
comment on table shards is 'The 256 shards of the endpoints, and the incarnation that owns each; null: nobody does.';
comment on index shards_pkey is 'Heartbeat: all of them.';
insert into shards (shard) select generate_series(0, 255);

-- What was published. Here and below the primary key is made after the other indexes:
-- of two indexes that cost the same, because the table is empty when a statement
-- is planned, the planner takes the younger, and the primary key is the one that
-- is still right when the table is full.

create table events (
    id           uuid not null,
    account      uuid not null,
    type         text not null,
    data         bytea not null,
    api_version  text not null,
    ordering_key text not null,
    hops         smallint not null check (hops >= 0),
    max_attempts smallint not null default 0 check (max_attempts >= 0),
    sequence     bigint not null,
    idempotency_key text check (idempotency_key <> ''),
    about        bytea check (octet_length(about) >= 24),
    created_at   timestamptz not null,
    constraint events_order check ((ordering_key = '') = (sequence = 0))
) partition by range (id);
create index events_account on events (account, id);
create index events_order on events (account, ordering_key, id) where ordering_key <> '';
alter table events add primary key (id);
comment on table events is 'What producers published: immutable bytes. A partition for each day of the ids.';
comment on column events.idempotency_key is 'Null: the producer gave none. It is found by idempotency_keys_pkey.';
comment on column events.max_attempts is 'Attempts that each delivery has at most. 0: the producer did not say, and the policy of the endpoint counts. Publish writes it.';
comment on column events.about is 'The trace and the span that the producer published the event in, 16 bytes and 8, the text of its tracestate, and what the event says of itself: see store.EncodeAbout. Null: neither. Publish writes it.';
comment on index events_pkey is 'Claim and Events: one by id; a publish whose reply was lost waits here for its first try.';
comment on index events_account is 'Events of an account, newest first. OldRows. Undelivered.';
comment on index events_order is 'Events of an ordering key, newest first. Events without a key are not in it and cost nothing.';

create table event_terms (
    term bigint not null,
    id   uuid not null
) partition by range (id);
create index event_terms_id on event_terms (id);
alter table event_terms add primary key (term, id);
comment on table event_terms is 'The terms of events whose type names paths: hashes of values of their data. A partition for each day of the ids, which is dropped with the events of the day.';
comment on column event_terms.term is 'Of secrets.Vault: 64 bits of an HMAC.';
comment on column event_terms.id is 'Of the event.';
comment on index event_terms_pkey is 'FindEvents: the events of a term, newest first.';
comment on index event_terms_id is 'DeleteRows and ExpungeRows: the terms of an event that is deleted.';

-- A day of events is dropped as a whole. What is needed of it moves here before. The view is
-- for those who look an event up by its id, with limit 1: during the move it is in both.
create table kept_events (
    like events including constraints,
    primary key (id)
);
comment on table kept_events is 'Events whose day was dropped, and that a pending delivery, an unresolved dead letter or a fan-out job needs. DeleteOld writes it, and deletes what is not needed any more.';
comment on index kept_events_pkey is 'Claim and Events: one by id. DeleteOld: whether an event is kept already.';
create view all_events as select * from events union all select * from kept_events;
comment on view all_events is 'Events by id, of every day.';

create table idempotency_keys (
    account    uuid not null,
    key        text collate "C" not null,
    event      uuid not null,
    hash       bytea not null check (octet_length(hash) = 32),
    created_at timestamptz not null,
    primary key (key, account)
);
create index idempotency_keys_created_at on idempotency_keys (created_at);
comment on table idempotency_keys is 'The event that owns a key, and the hash of its content. Not partitioned: a key is unique across days.';
comment on index idempotency_keys_pkey is 'Publish: inserting a key and reading its owner. Events of one idempotency key. Find: the owners of a key in all accounts, for which the key comes first.';
comment on index idempotency_keys_created_at is 'ForgetKeys: the oldest keys.';

create table outbox_rows (
    id          uuid primary key,
    event       uuid not null,
    recorded_at timestamptz not null
);
create index outbox_rows_recorded_at on outbox_rows (recorded_at);
comment on table outbox_rows is 'The rows of producers'' outboxes from which events were read, with the event: the first one, if another has its idempotency key.';
comment on index outbox_rows_pkey is 'Publish: recording a row and reading its event. OutboxRows, AdvanceSource.';
comment on index outbox_rows_recorded_at is 'ForgetRows: the oldest.';

create table ordering_keys (
    account      uuid not null,
    ordering_key text collate "C" not null,
    last         bigint not null check (last >= 1),
    primary key (ordering_key, account)
);
comment on table ordering_keys is 'The last sequence of each ordering key. A publish locks the row until its commit, so sequences have the order of commits. What ends an ordered delivery locks the row too: under this lock it is decided which delivery is the head.';
comment on index ordering_keys_pkey is 'Publish: the upsert that assigns sequences. Settle, Cancel, Expire, Discard, Replay: the lock of a key. Find: the accounts that have a key, for which the key comes first.';

create table paused_keys (
    endpoint     uuid not null,
    ordering_key text collate "C" not null,
    account      uuid not null,
    delivery     uuid not null,
    sequence     bigint not null,
    since        timestamptz not null,
    primary key (endpoint, ordering_key)
);
create unique index paused_keys_delivery on paused_keys (delivery);
comment on table paused_keys is 'The ordering keys that a dead letter pauses at an endpoint.';
comment on column paused_keys.delivery is 'The dead letter that pauses the key. The pause ends when it is replayed or discarded.';
comment on index paused_keys_pkey is 'Publish, Settle: whether a key is paused. OrderedKeys: the list.';
comment on index paused_keys_delivery is 'Replay, Discard: what a dead letter pauses.';

create table fanouts (
    event      uuid primary key,
    account    uuid not null,
    type       text not null,
    up_to      uuid not null,
    cursor     uuid not null,
    token      bigint,
    due_at     timestamptz not null,
    created_at timestamptz not null
);
create index fanouts_due_at on fanouts (due_at);
comment on table fanouts is 'Fan-out jobs: events whose deliveries are created in chunks. The last chunk deletes the row.';
comment on column fanouts.due_at is 'When the job is due; with a token, when its lease ends.';
comment on column fanouts.created_at is 'The time of the publish, compared with that of changes of subscriptions.';
comment on index fanouts_pkey is 'FanOut: moving a job''s cursor.';
comment on index fanouts_due_at is 'ClaimFanOuts: the jobs that are due.';

-- Pending deliveries. Rows are inserted, updated and deleted all the time. The settings
-- keep the table small in spite of that: free space on each page, so that an update stays
-- on its page, and a vacuum for every thousand dead rows, without pauses.
create table queue (
    id            uuid not null,
    named_event   uuid,
    endpoint      uuid not null,
    account       uuid not null,
    type          text not null,
    lane          smallint not null check (lane between 0 and 3),
    due_at        timestamptz not null,
    claims        integer not null check (claims >= 0),
    step          integer not null check (step >= -1),
    losses        integer not null check (losses >= 0),
    deaths_alone  smallint not null default 0 check (deaths_alone >= 0),
    parked        boolean not null default false,
    token         bigint check (token <> 0),
    expires_at    timestamptz not null,
    replayed_from uuid,
    replay_job    uuid,
    ordering_key  text collate "C" check (ordering_key <> ''),
    sequence      bigint check (sequence >= 1),
    pauses        boolean,
    constraint queue_leased check (token is null or claims >= 1),
    constraint queue_parked check (not parked or token is null and lane = 3 and due_at = 'infinity'),
    constraint queue_order check (num_nulls(ordering_key, sequence, pauses) in (0, 3))
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0
);
create index queue_due on queue (endpoint, lane, due_at, id) where due_at < 'infinity';
create index queue_event on queue (named_event) where named_event is not null;
create index queue_ordered_expires_at on queue (expires_at) where pauses is not null;
create index queue_parked on queue (endpoint) where parked;
create index queue_order_key on queue (endpoint, ordering_key, sequence) where ordering_key is not null;
create index queue_replay_job on queue (replay_job, id) where replay_job is not null;
create index queue_replays on queue (named_event, endpoint, id) where replayed_from is not null;
alter table queue add primary key (id);
comment on table queue is 'One narrow row for each pending delivery. It is deleted when the delivery ends.';
comment on column queue.named_event is 'The event, if the id of the delivery does not carry it; null: it does, see postrider_event.';
comment on column queue.lane is '0 first, 1 retry, 2 bulk, 3 suspect.';
comment on column queue.due_at is 'When the delivery is due; with a token, when its lease ends; infinity: it is not the head of its ordering key, its key is paused, or it is parked.';
comment on column queue.claims is 'The number of the attempt under way, or else of the last one made.';
comment on column queue.step is 'The place in the retry schedule; -1: no attempt is made, because the condition of the endpoint failed for the event.';
comment on column queue.losses is 'Leases in a row that ended without a settlement.';
comment on column queue.deaths_alone is 'Nodes in a row that died while this was the only row of lane 3 that they had leased.';
comment on column queue.parked is 'Whether it waits for a person, who calls MakeDue or Cancel.';
comment on column queue.ordering_key is 'Set for ordered deliveries only, as are sequence and pauses. A delivery to an endpoint without order has none, even if its event has a key.';
comment on column queue.pauses is 'Whether its end as a dead letter pauses the key.';
comment on index queue_pkey is 'Settle, Release, Cancel: one delivery. Deliveries of an event, whose ids carry it. Expire: those without an order. Deliveries: by age.';
comment on index queue_due is 'Claim: the longest due of an endpoint''s lane. Due: a skip scan of the lanes. Rows that are due at infinity are not in it.';
comment on index queue_event is 'Deliveries of an event whose ids do not carry it. Other rows are not in it; they are a range of queue_pkey.';
comment on index queue_parked is 'CancelDeleted: the parked rows of an endpoint, which queue_due does not have.';
comment on index queue_order_key is 'The lowest row of an ordering key. CancelDeleted: the ordered rows. OrderedKeys: a skip scan of the keys.';
comment on index queue_replay_job is 'Deliveries of a replay job. ReplayJobs and ReplaysPending: how many are pending. Other rows are not in it.';
comment on index queue_replays is 'Deliveries with Last: the pending replays of an event. Other rows are not in it.';
comment on index queue_ordered_expires_at is 'Expire: the ordered rows that have expired. Its predicate is in that statement only: to the planner an index without rows is the cheapest for every statement that implies its predicate.';

-- What happened.

create table attempts (
    delivery       uuid not null,
    number         integer not null check (number >= 0),
    named_event    uuid,
    endpoint       uuid not null,
    account        uuid not null,
    type           text not null,
    outcome        text not null check (outcome in ('accepted', 'rejected', 'gone', 'throttled', 'unreachable',
        'timed_out', 'broken', 'blocked', 'lost', 'none')),
    status_code    smallint not null check (status_code = 0 or status_code between 100 and 999),
    error          text not null,
    retry_after    bigint not null check (retry_after >= 0),
    started_at     timestamptz not null,
    duration       bigint not null check (duration >= 0),
    stale          boolean not null,
    status_after   text not null check (status_after in ('pending', 'delivered', 'dead', 'cancelled', 'skipped')),
    next_at        timestamptz,
    replayed_from  uuid,
    replay_job     uuid,
    response_start bytea check (octet_length(response_start) <= 256),
    final_url      text,
    timing         bytea,
    was_lost       boolean,
    response_head  bytea check (octet_length(response_head) <= 512),
    constraint attempts_next_at check (next_at is null or status_after = 'pending'),
    constraint attempts_stale check (not stale or status_after = 'pending'),
    constraint attempts_decision check (status_after not in ('cancelled', 'skipped') or outcome = 'none')
) partition by range (delivery);
create index attempts_endpoint on attempts (endpoint, delivery);
create index attempts_account on attempts (account, delivery);
create index attempts_event on attempts (named_event) where named_event is not null;
create index attempts_decided_endpoint on attempts (endpoint, status_after, delivery) where outcome = 'none';
create index attempts_decided_account on attempts (account, status_after, delivery) where outcome = 'none';
create index attempts_decided on attempts (status_after, delivery) where outcome = 'none';
create index attempts_replay_job on attempts (replay_job, delivery) where replay_job is not null;
create index attempts_replay_job_decided on attempts (replay_job) where replay_job is not null and outcome = 'none';
create index attempts_replays on attempts (named_event, endpoint, delivery) where replayed_from is not null;
alter table attempts add primary key (delivery, number);
comment on table attempts is 'One row for each request, and for each decision without one (outcome none). Append-only, except that a lost attempt is replaced when its node reports the response after all. A partition for each day of the delivery''s id.';
comment on column attempts.named_event is 'The event, if the id of the delivery does not carry it; null: it does, see postrider_event.';
comment on column attempts.response_head is 'The head of an accepted response, or (16 bytes) the delivery of this endpoint and day whose row has it.';
comment on column attempts.error is 'A class of error; of a decision, its reason.';
comment on column attempts.retry_after is 'Microseconds.';
comment on column attempts.duration is 'Microseconds.';
comment on column attempts.response_start is 'The first bytes of an accepted response.';
comment on column attempts.final_url is 'Where redirects led to; null: there were none.';
comment on column attempts.timing is 'The parts of the duration, by store.EncodeTiming; null: no request was begun.';
comment on column attempts.was_lost is 'True: the record has taken the place of one that said lost, by which the rollups have counted it; null: it has not.';
comment on index attempts_pkey is 'Settle: a settlement that is repeated meets its first record here. Attempts of a delivery, and of an event, whose ids carry it.';
comment on index attempts_endpoint is 'Deliveries of an endpoint, newest first.';
comment on index attempts_account is 'Deliveries of an account, newest first. OldRows.';
comment on index attempts_event is 'Deliveries and Attempts of an event whose ids do not carry it. Other rows are not in it; they are a range of attempts_pkey.';
comment on index attempts_decided_endpoint is 'Deliveries of an endpoint that were skipped or cancelled. Requests are not in it.';
comment on index attempts_decided_account is 'Deliveries of an account that were skipped or cancelled. Requests are not in it.';
comment on index attempts_decided is 'Deliveries that were skipped or cancelled. Requests are not in it.';
comment on index attempts_replay_job is 'Deliveries of a replay job. Other rows are not in it.';
comment on index attempts_replay_job_decided is 'ReplayJobs: how many of its deliveries were cancelled. Other rows are not in it.';
comment on index attempts_replays is 'Deliveries with Last: the replays of an event that have ended. Other rows are not in it.';

create table attempt_bodies (
    delivery      uuid not null,
    number        integer not null,
    request_head  bytea,
    response_head bytea,
    response_body bytea,
    primary key (delivery, number)
) partition by range (delivery);
comment on table attempt_bodies is 'Heads and bodies of attempts that attempts.response_start cannot hold. Partitioned like attempts.';
comment on index attempt_bodies_pkey is 'Attempts of a delivery.';

create table dead_letters (
    delivery         uuid primary key,
    event            uuid not null,
    endpoint         uuid not null,
    account          uuid not null,
    type             text not null,
    reason           text not null check (reason <> ''),
    attempts         integer not null check (attempts >= 0),
    last_status_code smallint not null,
    last_error       text not null,
    replayed_from    uuid,
    replay_job       uuid,
    died_at          timestamptz not null,
    resolved_at      timestamptz,
    resolution       text check (resolution in ('replayed', 'discarded')),
    resolved_by      text not null default '',
    note             text not null default '',
    replay           uuid,
    constraint dead_letters_resolved check ((resolved_at is null) = (resolution is null)),
    constraint dead_letters_replay check (resolution is distinct from 'replayed' or replay is not null)
);
create index dead_letters_endpoint on dead_letters (endpoint, delivery);
create index dead_letters_account on dead_letters (account, delivery);
create index dead_letters_event on dead_letters (event);
create index dead_letters_reason_account on dead_letters (account, reason, delivery);
create index dead_letters_reason on dead_letters (reason, delivery);
create index dead_letters_unresolved on dead_letters (account, endpoint, reason, last_status_code, last_error, delivery) where resolved_at is null;
create index dead_letters_resolved on dead_letters (resolved_at) where resolved_at is not null;
create index dead_letters_replay_job on dead_letters (replay_job, delivery) where replay_job is not null;
create index dead_letters_replays on dead_letters (event, endpoint, delivery) where replayed_from is not null;
comment on table dead_letters is 'Deliveries that died and wait for a person, and what the person did. Resolving a dead letter keeps its row.';
comment on index dead_letters_pkey is 'DeadLetters and Deliveries: one, and the list, newest first. Replay, Discard.';
comment on index dead_letters_endpoint is 'DeadLetters and Deliveries of an endpoint, newest first.';
comment on index dead_letters_account is 'DeadLetters and Deliveries of an account, newest first.';
comment on index dead_letters_event is 'Deliveries of an event.';
comment on index dead_letters_reason_account is 'DeadLetters of an account and a reason.';
comment on index dead_letters_reason is 'DeadLetters of a reason.';
comment on index dead_letters_unresolved is 'DeadLetterGroups: a skip scan of the endpoints and causes, and the count of each. Backlog: those of all, of an account or of an endpoint.';
comment on index dead_letters_resolved is 'DeleteOld: the resolved ones, oldest first.';
comment on index dead_letters_replay_job is 'Deliveries of a replay job. ReplayJobs: how many of its deliveries died. Other rows are not in it.';
comment on index dead_letters_replays is 'Deliveries with Last: the replays of an event that died. Other rows are not in it.';

create table replay_jobs (
    id               uuid primary key,
    account          uuid,
    action           text not null check (action in ('replay', 'discard', 'backfill')),
    backfills        uuid,
    filter           text not null,
    per_second       integer not null check (per_second >= 1),
    made_by          text not null,
    note             text not null,
    expected         bigint not null check (expected >= 0),
    expected_exact   boolean not null,
    status           text not null check (status in ('running', 'paused', 'done', 'cancelled', 'failed')),
    error            text not null,
    cursor           uuid not null,
    held             text not null,
    handled          bigint not null default 0 check (handled >= 0),
    bytes_gone       bigint not null default 0 check (bytes_gone >= 0),
    replay_pending   bigint not null default 0 check (replay_pending >= 0),
    endpoint_deleted bigint not null default 0 check (endpoint_deleted >= 0),
    resolved         bigint not null default 0 check (resolved >= 0),
    token            bigint check (token <> 0),
    due_at           timestamptz not null,
    created_at       timestamptz not null,
    ended_at         timestamptz,
    constraint replay_jobs_ended check ((ended_at is null) = (status in ('running', 'paused'))),
    constraint replay_jobs_backfills check ((backfills is not null) = (action = 'backfill'))
);
create index replay_jobs_account on replay_jobs (account, id) where account is not null;
create index replay_jobs_running on replay_jobs (id) where status = 'running';
create unique index replay_jobs_backfills on replay_jobs (backfills) where backfills is not null and ended_at is null;
comment on table replay_jobs is 'Jobs that replay or discard what a filter selects, or make first deliveries of old events. Ended ones stay.';
comment on column replay_jobs.account is 'Null: the job is about all accounts.';
comment on column replay_jobs.backfills is 'The endpoint of a backfill. Null: the job is none.';
comment on column replay_jobs.filter is 'The JSON document of store.EncodeReplayFilter.';
comment on column replay_jobs.expected is 'The number of matches that was counted when the job was made; with expected_exact false there were more.';
comment on column replay_jobs.cursor is 'The last delivery that is done, but for those of held endpoints; of a backfill, the last event.';
comment on column replay_jobs.held is 'Endpoints that had too many of the job''s deliveries pending, each with the last delivery that is done of it: the JSON document of store.EncodeHeld.';
comment on column replay_jobs.due_at is 'When the job is due; with a token, when its lease ends.';
comment on index replay_jobs_pkey is 'ReplayJobs: one, and the list, newest first. SetReplayJob, ReplayChunk.';
comment on index replay_jobs_account is 'ReplayJobs of an account, newest first. Undelivered: whether another backfill has made deliveries to the endpoint.';
comment on index replay_jobs_running is 'ClaimReplayJobs: the jobs that run, oldest first. Ended ones are not in it.';
comment on index replay_jobs_backfills is 'PutReplayJob: an endpoint has at most one backfill that has not ended.';

-- What is archived, and the copies that people have fetched back.

create table archive_parts (
    kind      text collate "C" not null check (kind in ('events', 'attempts', 'bodies')),
    day       timestamptz not null,
    number    integer not null check (number >= 1),
    object    text not null,
    row_count bigint not null check (row_count >= 0),
    deleted   bigint not null check (deleted between 0 and row_count),
    bytes     bigint not null check (bytes >= 0),
    sha256    bytea not null check (octet_length(sha256) = 32),
    after     uuid not null,
    last      uuid not null,
    made_at   timestamptz not null,
    primary key (kind, day, number)
);
comment on table archive_parts is 'The parts of the archive: objects with the rows of a kind whose ids were made on a day, and are after one id, up to another. With 0 bytes: a node is making the part, or has died.';
comment on column archive_parts.row_count is 'Rows that the part counts; with 0 bytes: rows that were removed while the part is made.';
comment on column archive_parts.day is 'Its first instant, in UTC.';
comment on column archive_parts.deleted is 'Rows that were deleted since; of a part of single rows all, from the beginning. While an archive is set, DeleteOld deletes a day only if as many rows are stored as its parts count and were not deleted.';
comment on index archive_parts_pkey is 'ArchiveDay, PutArchivePart, RedoArchiveDay, ArchiveParts, DeleteOld, ExpungeRows, ReplaceArchivePart: the parts of a day, in order.';

create table archive_keys (
    account   uuid primary key,
    encrypted bytea not null check (octet_length(encrypted) > 0)
);
comment on table archive_keys is 'The keys that the accounts'' archives are encrypted with, themselves encrypted. Without its key an account''s archives cannot be read by anyone.';
comment on index archive_keys_pkey is 'ArchiveKey, PutArchiveKey, DeleteArchiveKey, Reencrypt: one. EncryptedValues: all.';

create table archive_lease (
    node   bigint not null,
    until  timestamptz not null,
    single boolean primary key default true check (single)
);
comment on table archive_lease is 'At most one row: which node archives, and until when.';
comment on column archive_lease.until is 'By @now.';
comment on index archive_lease_pkey is 'LeaseArchive. Keeps the table to its one row.';

create table restored_records (
    id       uuid not null,
    number   integer not null check (number >= 0),
    kind     text collate "C" not null check (kind in ('events', 'attempts', 'bodies')),
    account  uuid not null,
    event    uuid not null,
    endpoint uuid not null,
    type     text not null,
    record   bytea not null,
    at       timestamptz not null,
    primary key (id, number, kind)
);
create index restored_records_event on restored_records (event, id, number, kind);
create index restored_records_account on restored_records (account, id, number, kind);
create index restored_records_at on restored_records (at);
comment on table restored_records is 'Records that people have copied back from the archive: JSON. Nothing sends them.';
comment on column restored_records.number is 'Of the attempt; 0: an event.';
comment on column restored_records.endpoint is 'The zero id: an event.';
comment on column restored_records.at is 'When it was restored.';
comment on index restored_records_pkey is 'RestoredRecords: all. PutRestored: one.';
comment on index restored_records_event is 'RestoredRecords of an event.';
comment on index restored_records_account is 'RestoredRecords of an account.';
comment on index restored_records_at is 'ForgetRestored: the oldest.';

create table what_ifs (
    account    uuid primary key,
    endpoint   uuid not null,
    document   text not null,
    token      bigint check (token <> 0),
    due_at     timestamptz,
    changed_at timestamptz not null
);
create index what_ifs_due_at on what_ifs (due_at) where due_at is not null;
create index what_ifs_changed_at on what_ifs (changed_at);
comment on table what_ifs is 'Jobs that compare archived events with a change of a subscription: the last one of each account, for an hour.';
comment on column what_ifs.document is 'JSON: what is compared, how far, and the result so far.';
comment on column what_ifs.due_at is 'When the job is due, by @now; after a claim, when the lease ends. Null: it has ended.';
comment on column what_ifs.changed_at is 'The end of its last step.';
comment on index what_ifs_pkey is 'The other verbs of WhatIfs. Keeps the table to one row for each account.';
comment on index what_ifs_due_at is 'ClaimWhatIf: the job that has been due for longest. Ended ones are not in it.';
comment on index what_ifs_changed_at is 'DeleteOld: the oldest.';

-- What was removed on request. A row stays as the proof.
create table expunges (
    id           uuid primary key,
    event        uuid,
    endpoint     uuid,
    account      uuid not null,
    made_by      text not null,
    events       bigint not null default 0 check (events >= 0),
    attempts     bigint not null default 0 check (attempts >= 0),
    dead_letters bigint not null default 0 check (dead_letters >= 0),
    terms        bigint not null default 0 check (terms >= 0),
    subscriptions bigint not null default 0 check (subscriptions >= 0),
    other        bigint not null default 0 check (other >= 0),
    archived     bigint not null default 0 check (archived >= 0),
    digest       bytea not null default decode(repeat('00', 32), 'hex') check (octet_length(digest) = 32),
    empty_since  timestamptz,
    archive_day  timestamptz,
    archive_done boolean not null default false,
    archive_held boolean not null default false,
    archive_fault text not null default '',
    outbox_uid   text not null default '',
    outbox_rows  bigint not null default 0 check (outbox_rows >= 0),
    outbox_fault text not null default '',
    created_at   timestamptz not null,
    ended_at     timestamptz
);
create index expunges_running on expunges (id) where ended_at is null;
comment on table expunges is 'Events, endpoints and accounts that were removed on request. A row stays as the proof: it has ids, counts and a digest.';
comment on column expunges.event is 'Null: the endpoint is removed, or the account.';
comment on column expunges.endpoint is 'Null: the event is removed, or the account.';
comment on column expunges.digest is 'postrider.ExpungeDigest of the events; zero: none was removed.';
comment on column expunges.empty_since is 'Since when nothing was found; null: something was found the last time.';
comment on column expunges.archived is 'Records that were removed from the archive.';
comment on column expunges.archive_day is 'The next day of ids to remove in the archive; null: it has not begun there.';
comment on column expunges.archive_done is 'All days of the archive were looked at.';
comment on column expunges.archive_held is 'Not all parts of the archive were there, or no archive is set.';
comment on column expunges.archive_fault is 'Why it did not go on in the archive the last time; empty: it did.';
comment on column expunges.outbox_uid is 'The uid of the account that is removed, which rows in the outboxes of producers may have; empty after the end.';
comment on column expunges.outbox_rows is 'Rows that were removed from the outboxes of producers.';
comment on column expunges.outbox_fault is 'Which outboxes could not be reached the last time, and why; empty: all were.';
comment on column expunges.ended_at is 'Null: it goes on.';
comment on index expunges_pkey is 'Expunges: one, and the list, newest first. ExpungeRows, NoteOutbox, NoteExpunge, ReplaceArchivePart.';
comment on index expunges_running is 'Expunges: those that go on. Ended ones are not in it.';

-- What is counted.

-- A row lives for ten seconds or so. Its bytes stay in the row as far as a page allows.
create table rollup_deltas (
    at        timestamptz not null,
    counted   bytea,
    endpoints uuid[],
    accounts  uuid[],
    types     text[],
    outcomes  text[],
    numbers   integer[],
    statuses  text[],
    constraint rollup_deltas_form check ((counted is null) = (endpoints is not null))
) with (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000
);
alter table rollup_deltas alter column counted set storage external;
comment on table rollup_deltas is 'What a transaction has recorded: one row for each one that records attempts or ends deliveries. FoldRollups deletes the rows, all of them every ten seconds or so; it needs no index.';
comment on column rollup_deltas.counted is 'The bytes of store.Deltas, of a transaction that knows beforehand what it records; null: the arrays have one element for each record.';

create table rollups (
    scope     uuid not null,
    type      text collate "C" not null,
    step      smallint not null check (step between 0 and 2),
    at        timestamptz not null,
    counts    bytea not null,
    responses bytea,
    latencies bytea,
    delivered bigint not null,
    dead      bigint not null,
    primary key (scope, type, step, at)
) with (fillfactor = 70);
create index rollups_at on rollups (step, at, scope, type);
create index rollups_dying on rollups (scope, at desc) where dead > 0 and step = 0 and type = '';
comment on table rollups is 'What happened in a minute (step 0), an hour (1) or a day (2): to all deliveries (scope is the zero id), those of an account or those of an endpoint; of all types (type is empty) or of one. Written under the lock of the rollups alone.';
comment on column rollups.counts is 'The bytes of postrider.Counts; responses and latencies are those of postrider.Sketch, null: an empty one.';
comment on column rollups.delivered is 'As in counts, for HealthInputs and EndpointStates; dead too.';
comment on index rollups_pkey is 'Rollups, HealthInputs and EndpointStates: a range of a scope, type and step. FoldRollups: one, and a skip scan of the types of a scope.';
comment on index rollups_at is 'RollUp: what follows a position. ForgetRollups: the oldest of a step.';
comment on index rollups_dying is 'HealthInputs: a skip scan of the scopes in which deliveries died within the last two days.';

create table rollup_positions (
    step  smallint primary key check (step between 0 and 1),
    at    timestamptz not null,
    scope uuid not null,
    type  text collate "C" not null
);
comment on table rollup_positions is 'Up to where the rollups of a step were added to those of the next one, in the order of rollups_at. Two rows.';
comment on index rollup_positions_pkey is 'FoldRollups, RollUp, ForgetRollups, Rollups: both.';
insert into rollup_positions (step, at, scope, type)
values (0, 'epoch', '00000000-0000-0000-0000-000000000000', ''), (1, 'epoch', '00000000-0000-0000-0000-000000000000', '');

create function postrider_check_version(expected bigint) returns void
language plpgsql stable as $$
begin
    -- Without a lock: a change that commits after this statement began overlaps with
    -- the publish, and either order of the two is right.
    if expected is distinct from (select version from subscriptions) then
        raise exception 'subscriptions moved on' using errcode = 'PR001';
    end if;
end
$$;
comment on function postrider_check_version is 'Publish: fails with PR001 when deliveries were matched with another version.';

create function postrider_keys_being_inserted(accounts uuid[], keys text[], idempotency boolean[]) returns setof bigint
language plpgsql set lock_timeout = '5ms' as $$
begin
    -- A row of an outbox has no key: its id is in accounts.
    for i in 1 .. coalesce(array_length(keys, 1), 0) loop
        -- A row that can be seen is not being inserted, and is not waited for.
        continue when not idempotency[i]
            and exists (select from ordering_keys o where o.account = accounts[i] and o.ordering_key = keys[i]);
        begin
            if keys[i] = '' then
                insert into outbox_rows (id, event, recorded_at) values (accounts[i], accounts[i], now()) on conflict do nothing;
            elsif idempotency[i] then
                insert into idempotency_keys (account, key, event, hash, created_at)
                values (accounts[i], keys[i], accounts[i], sha256(''), now()) on conflict do nothing;
            else
                insert into ordering_keys (account, ordering_key, last) values (accounts[i], keys[i], 1) on conflict do nothing;
            end if;
            raise exception 'undone' using errcode = 'PR002';
        exception
            when sqlstate 'PR002' then null;
            when lock_not_available then return next i;
        end;
    end loop;
end
$$;
comment on function postrider_keys_being_inserted is 'Publish, Settle: the places of the keys that a transaction inserts which has not ended.';

create function postrider_id_floor(at timestamptz) returns uuid
language sql immutable as $$
    select rpad(lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;
comment on function postrider_id_floor is 'The least id made at an instant or later.';

-- The id of an event ends with three zero bytes. Its deliveries have an ordinal there (see id.go).
create function postrider_event(delivery uuid, named_event uuid) returns uuid
language sql immutable parallel safe as $$
    select coalesce(named_event, (left(delivery::text, 30) || '000000')::uuid)
$$;
comment on function postrider_event is 'The event of a delivery: the one that its row names, or the one that its id carries.';

create function postrider_last_delivery(event uuid) returns uuid
language sql immutable parallel safe as $$
    select (left(event::text, 30) || 'ffffff')::uuid
$$;
comment on function postrider_last_delivery is 'The greatest id of a delivery that carries the event. The least one is the id of the event.';

create function postrider_make_partitions(first date, last date) returns integer
language plpgsql as $$
declare
    parent text;
    day    date;
    child  text;
    made   integer := 0;
begin
    perform set_config('lock_timeout', '2s', true);
    perform pg_advisory_xact_lock(hashtext('postrider_make_partitions'));
    foreach parent in array array['events', 'event_terms', 'attempts', 'attempt_bodies'] loop
        for offset_days in 0 .. last - first loop
            day := first + offset_days;
            child := parent || to_char(day, '_YYYYMMDD');
            continue when to_regclass(child) is not null;
            -- The table is created alone and then attached: create ... partition of
            -- would lock the parent, and every insert would wait.
            execute format('create table %I (like %I including all)', child, parent);
            execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, child,
                postrider_id_floor(day::timestamp at time zone 'UTC'),
                postrider_id_floor((day + 1)::timestamp at time zone 'UTC'));
            made := made + 1;
        end loop;
    end loop;
    return made;
end
$$;
comment on function postrider_make_partitions is 'MakePartitions: makes the missing daily partitions of events, event_terms, attempts and attempt_bodies, and counts them.';
-- +goose StatementEnd
