CREATE FUNCTION public.audit_is_final() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    raise exception 'audit entries never change';
end $$;

CREATE FUNCTION public.postrider_check_version(expected bigint) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
begin
    -- Without a lock: a change that commits after this statement began overlaps with
    -- the publish, and either order of the two is right.
    if expected is distinct from (select version from subscriptions) then
        raise exception 'subscriptions moved on' using errcode = 'PR001';
    end if;
end
$$;

COMMENT ON FUNCTION public.postrider_check_version(expected bigint) IS 'Publish: fails with PR001 when deliveries were matched with another version.';

CREATE FUNCTION public.postrider_id_floor(at timestamp with time zone) RETURNS uuid
    LANGUAGE sql IMMUTABLE
    AS $$
    select rpad(lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;

COMMENT ON FUNCTION public.postrider_id_floor(at timestamp with time zone) IS 'The least id made at an instant or later.';

CREATE FUNCTION public.postrider_keys_being_inserted(accounts uuid[], keys text[], idempotency boolean[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET lock_timeout TO '5ms'
    AS $$
begin
    for i in 1 .. coalesce(array_length(keys, 1), 0) loop
        -- A row that can be seen is not being inserted, and is not waited for.
        continue when not idempotency[i]
            and exists (select from ordering_keys o where o.account = accounts[i] and o.ordering_key = keys[i]);
        begin
            if idempotency[i] then
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

COMMENT ON FUNCTION public.postrider_keys_being_inserted(accounts uuid[], keys text[], idempotency boolean[]) IS 'Publish, Settle: the places of the keys that a transaction inserts which has not ended.';

CREATE FUNCTION public.postrider_make_partitions(first date, last date) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    parent text;
    day    date;
    child  text;
    made   integer := 0;
begin
    perform set_config('lock_timeout', '2s', true);
    perform pg_advisory_xact_lock(hashtext('postrider_make_partitions'));
    foreach parent in array array['events', 'attempts', 'attempt_bodies'] loop
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

COMMENT ON FUNCTION public.postrider_make_partitions(first date, last date) IS 'MakePartitions: makes the missing daily partitions of events, attempts and attempt_bodies, and counts them.';

CREATE TABLE public.accounts (
    id uuid NOT NULL,
    uid text,
    name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    keep_events integer DEFAULT 0 NOT NULL,
    keep_attempts integer DEFAULT 0 NOT NULL,
    keep_bodies integer DEFAULT 0 NOT NULL,
    keep_keys integer DEFAULT 0 NOT NULL,
    CONSTRAINT accounts_keep_attempts_check CHECK ((keep_attempts >= 0)),
    CONSTRAINT accounts_keep_bodies_check CHECK ((keep_bodies >= 0)),
    CONSTRAINT accounts_keep_events_check CHECK ((keep_events >= 0)),
    CONSTRAINT accounts_keep_keys_check CHECK ((keep_keys >= 0)),
    CONSTRAINT accounts_uid_check CHECK ((uid <> ''::text))
);

COMMENT ON TABLE public.accounts IS 'The customers of the platform. Endpoints and events belong to one.';

COMMENT ON COLUMN public.accounts.uid IS 'The platform''s own name for the account; null: none.';

COMMENT ON COLUMN public.accounts.deleted_at IS 'Null: it is not deleted. A deleted account keeps its row, because its history names it.';

COMMENT ON COLUMN public.accounts.keep_events IS 'Days that the account''s events are kept; 0: as long as the server keeps them.';

COMMENT ON COLUMN public.accounts.keep_attempts IS 'Likewise its attempts.';

COMMENT ON COLUMN public.accounts.keep_bodies IS 'Likewise heads and bodies of its attempts.';

COMMENT ON COLUMN public.accounts.keep_keys IS 'Likewise its idempotency keys.';

CREATE TABLE public.events (
    id uuid NOT NULL,
    account uuid NOT NULL,
    type text NOT NULL,
    data bytea NOT NULL,
    api_version text NOT NULL,
    ordering_key text NOT NULL,
    hops smallint NOT NULL,
    max_attempts smallint DEFAULT 0 NOT NULL,
    sequence bigint NOT NULL,
    idempotency_key text,
    trace_context bytea,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT events_hops_check CHECK ((hops >= 0)),
    CONSTRAINT events_idempotency_key_check CHECK ((idempotency_key <> ''::text)),
    CONSTRAINT events_max_attempts_check CHECK ((max_attempts >= 0)),
    CONSTRAINT events_order CHECK (((ordering_key = ''::text) = (sequence = 0))),
    CONSTRAINT events_trace_context_check CHECK (((octet_length(trace_context) >= 24) AND (octet_length(trace_context) <= 536)))
)
PARTITION BY RANGE (id);

COMMENT ON TABLE public.events IS 'What producers published: immutable bytes. A partition for each day of the ids.';

COMMENT ON COLUMN public.events.max_attempts IS 'Attempts that each delivery has at most. 0: the producer did not say, and the policy of the endpoint counts. Publish writes it.';

COMMENT ON COLUMN public.events.idempotency_key IS 'Null: the producer gave none. It is found by idempotency_keys_pkey.';

COMMENT ON COLUMN public.events.trace_context IS 'The trace and the span that the producer published the event in, 16 bytes and 8, and the text of its tracestate. Null: it gave no trace. Publish writes it.';

CREATE TABLE public.kept_events (
    id uuid NOT NULL,
    account uuid NOT NULL,
    type text NOT NULL,
    data bytea NOT NULL,
    api_version text NOT NULL,
    ordering_key text NOT NULL,
    hops smallint NOT NULL,
    max_attempts smallint NOT NULL,
    sequence bigint NOT NULL,
    idempotency_key text,
    trace_context bytea,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT events_hops_check CHECK ((hops >= 0)),
    CONSTRAINT events_idempotency_key_check CHECK ((idempotency_key <> ''::text)),
    CONSTRAINT events_max_attempts_check CHECK ((max_attempts >= 0)),
    CONSTRAINT events_order CHECK (((ordering_key = ''::text) = (sequence = 0))),
    CONSTRAINT events_trace_context_check CHECK (((octet_length(trace_context) >= 24) AND (octet_length(trace_context) <= 536)))
);

COMMENT ON TABLE public.kept_events IS 'Events whose day was dropped, and that a pending delivery, an unresolved dead letter or a fan-out job needs. DeleteOld writes it, and deletes what is not needed any more.';

CREATE VIEW public.all_events AS
 SELECT events.id,
    events.account,
    events.type,
    events.data,
    events.api_version,
    events.ordering_key,
    events.hops,
    events.max_attempts,
    events.sequence,
    events.idempotency_key,
    events.trace_context,
    events.created_at
   FROM public.events
UNION ALL
 SELECT kept_events.id,
    kept_events.account,
    kept_events.type,
    kept_events.data,
    kept_events.api_version,
    kept_events.ordering_key,
    kept_events.hops,
    kept_events.max_attempts,
    kept_events.sequence,
    kept_events.idempotency_key,
    kept_events.trace_context,
    kept_events.created_at
   FROM public.kept_events;

COMMENT ON VIEW public.all_events IS 'Events by id, of every day.';

CREATE TABLE public.api_keys (
    id uuid NOT NULL,
    name text NOT NULL,
    hash bytea NOT NULL,
    scopes text[] NOT NULL,
    account uuid,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT api_keys_hash_check CHECK ((octet_length(hash) = 32))
);

COMMENT ON TABLE public.api_keys IS 'API keys; only the SHA-256 of a key is kept.';

COMMENT ON COLUMN public.api_keys.account IS 'Null: the key reaches every account.';

CREATE TABLE public.archive_keys (
    account uuid NOT NULL,
    encrypted bytea NOT NULL,
    CONSTRAINT archive_keys_encrypted_check CHECK ((octet_length(encrypted) > 0))
);

COMMENT ON TABLE public.archive_keys IS 'The keys that the accounts'' archives are encrypted with, themselves encrypted. Without its key an account''s archives cannot be read by anyone.';

CREATE TABLE public.archive_lease (
    node bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    single boolean DEFAULT true NOT NULL,
    CONSTRAINT archive_lease_single_check CHECK (single)
);

COMMENT ON TABLE public.archive_lease IS 'At most one row: which node archives, and until when.';

COMMENT ON COLUMN public.archive_lease.until IS 'By @now.';

CREATE TABLE public.archive_parts (
    kind text NOT NULL COLLATE pg_catalog."C",
    day timestamp with time zone NOT NULL,
    number integer NOT NULL,
    object text NOT NULL,
    row_count bigint NOT NULL,
    deleted bigint NOT NULL,
    bytes bigint NOT NULL,
    sha256 bytea NOT NULL,
    after uuid NOT NULL,
    last uuid NOT NULL,
    made_at timestamp with time zone NOT NULL,
    CONSTRAINT archive_parts_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT archive_parts_check CHECK (((deleted >= 0) AND (deleted <= row_count))),
    CONSTRAINT archive_parts_kind_check CHECK ((kind = ANY (ARRAY['events'::text, 'attempts'::text, 'bodies'::text]))),
    CONSTRAINT archive_parts_number_check CHECK ((number >= 1)),
    CONSTRAINT archive_parts_row_count_check CHECK ((row_count >= 0)),
    CONSTRAINT archive_parts_sha256_check CHECK ((octet_length(sha256) = 32))
);

COMMENT ON TABLE public.archive_parts IS 'The parts of the archive: objects with the rows of a kind whose ids were made on a day, and are after one id, up to another.';

COMMENT ON COLUMN public.archive_parts.day IS 'Its first instant, in UTC.';

COMMENT ON COLUMN public.archive_parts.deleted IS 'Rows that were deleted since; of a part of single rows all, from the beginning. While an archive is set, DeleteOld deletes a day only if its parts have as many other rows as are stored.';

CREATE TABLE public.attempt_bodies (
    delivery uuid NOT NULL,
    number integer NOT NULL,
    request_head bytea,
    response_head bytea,
    response_body bytea
)
PARTITION BY RANGE (delivery);

COMMENT ON TABLE public.attempt_bodies IS 'Heads and bodies of attempts that attempts.response_start cannot hold. Partitioned like attempts.';

CREATE TABLE public.attempts (
    delivery uuid NOT NULL,
    number integer NOT NULL,
    event uuid NOT NULL,
    endpoint uuid NOT NULL,
    account uuid NOT NULL,
    type text NOT NULL,
    outcome text NOT NULL,
    status_code smallint NOT NULL,
    error text NOT NULL,
    retry_after bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    duration bigint NOT NULL,
    stale boolean NOT NULL,
    status_after text NOT NULL,
    next_at timestamp with time zone,
    replayed_from uuid,
    replay_job uuid,
    response_start bytea,
    final_url text,
    timing bytea,
    was_lost boolean,
    response_head bytea,
    CONSTRAINT attempts_decision CHECK (((status_after <> ALL (ARRAY['cancelled'::text, 'skipped'::text])) OR (outcome = 'none'::text))),
    CONSTRAINT attempts_duration_check CHECK ((duration >= 0)),
    CONSTRAINT attempts_next_at CHECK (((next_at IS NULL) OR (status_after = 'pending'::text))),
    CONSTRAINT attempts_number_check CHECK ((number >= 0)),
    CONSTRAINT attempts_outcome_check CHECK ((outcome = ANY (ARRAY['accepted'::text, 'rejected'::text, 'gone'::text, 'throttled'::text, 'unreachable'::text, 'timed_out'::text, 'broken'::text, 'blocked'::text, 'lost'::text, 'none'::text]))),
    CONSTRAINT attempts_response_head_check CHECK ((octet_length(response_head) <= 512)),
    CONSTRAINT attempts_response_start_check CHECK ((octet_length(response_start) <= 256)),
    CONSTRAINT attempts_retry_after_check CHECK ((retry_after >= 0)),
    CONSTRAINT attempts_stale CHECK (((NOT stale) OR (status_after = 'pending'::text))),
    CONSTRAINT attempts_status_after_check CHECK ((status_after = ANY (ARRAY['pending'::text, 'delivered'::text, 'dead'::text, 'cancelled'::text, 'skipped'::text]))),
    CONSTRAINT attempts_status_code_check CHECK (((status_code = 0) OR ((status_code >= 100) AND (status_code <= 999))))
)
PARTITION BY RANGE (delivery);

COMMENT ON TABLE public.attempts IS 'One row for each request, and for each decision without one (outcome none). Append-only, except that a lost attempt is replaced when its node reports the response after all. A partition for each day of the delivery''s id.';

COMMENT ON COLUMN public.attempts.error IS 'A class of error; of a decision, its reason.';

COMMENT ON COLUMN public.attempts.retry_after IS 'Microseconds.';

COMMENT ON COLUMN public.attempts.duration IS 'Microseconds.';

COMMENT ON COLUMN public.attempts.response_start IS 'The first bytes of an accepted response.';

COMMENT ON COLUMN public.attempts.final_url IS 'Where redirects led to; null: there were none.';

COMMENT ON COLUMN public.attempts.timing IS 'The parts of the duration, by store.EncodeTiming; null: no request was begun.';

COMMENT ON COLUMN public.attempts.was_lost IS 'True: the record has taken the place of one that said lost, by which the rollups have counted it; null: it has not.';

COMMENT ON COLUMN public.attempts.response_head IS 'The head of an accepted response, or (16 bytes) the delivery of this endpoint and day whose row has it.';

CREATE TABLE public.audit (
    id uuid NOT NULL,
    action text NOT NULL,
    outcome text NOT NULL,
    key uuid,
    session uuid,
    name text NOT NULL,
    account uuid,
    object text NOT NULL,
    object_id text,
    request text NOT NULL,
    details jsonb NOT NULL
);

COMMENT ON TABLE public.audit IS 'The audit log: who did what. The id carries the time. A trigger refuses every change of an entry.';

COMMENT ON COLUMN public.audit.key IS 'Of the caller; null: it has none.';

COMMENT ON COLUMN public.audit.session IS 'Of the caller; null: it has none.';

COMMENT ON COLUMN public.audit.account IS 'That the action was about; null: none, or several.';

COMMENT ON COLUMN public.audit.object_id IS 'Null: the action has no object.';

CREATE TABLE public.circuits (
    endpoint uuid NOT NULL,
    status text NOT NULL,
    reason text NOT NULL,
    opened_at timestamp with time zone,
    probe_at timestamp with time zone,
    cooldown bigint NOT NULL,
    failing_since timestamp with time zone,
    paced_until timestamp with time zone,
    rate_full_at timestamp with time zone,
    failures integer NOT NULL,
    last_attempt_at timestamp with time zone,
    last_outcome text NOT NULL,
    generation bigint NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT circuits_cooldown_check CHECK ((cooldown >= 0)),
    CONSTRAINT circuits_failures_check CHECK ((failures >= 0)),
    CONSTRAINT circuits_generation_check CHECK ((generation >= 1)),
    CONSTRAINT circuits_status_check CHECK ((status = ANY (ARRAY['closed'::text, 'open'::text, 'half_open'::text])))
);

COMMENT ON TABLE public.circuits IS 'The circuits of endpoints. An endpoint whose circuit never changed has no row. Written by compare-and-swap of generation.';

COMMENT ON COLUMN public.circuits.cooldown IS 'Microseconds.';

COMMENT ON COLUMN public.circuits.paced_until IS 'Nothing is sent before this time, because the receiver asked for that with Retry-After; null: it did not.';

COMMENT ON COLUMN public.circuits.rate_full_at IS 'The state of the endpoint''s rate: when its token bucket is full again.';

COMMENT ON COLUMN public.circuits.failures IS 'Failures in a row, when the circuit was stored.';

COMMENT ON COLUMN public.circuits.last_outcome IS 'Empty: no attempt was made before the row was stored.';

CREATE TABLE public.clock (
    ahead bigint NOT NULL,
    version bigint NOT NULL,
    single boolean DEFAULT true NOT NULL,
    CONSTRAINT clock_single_check CHECK (single)
);

COMMENT ON TABLE public.clock IS 'One row: the adjustment that keeps the time of the nodes steady when the clock of the database is stepped. Written by compare-and-swap of version.';

COMMENT ON COLUMN public.clock.ahead IS 'Microseconds by which the time that decides what is due is ahead of the time of day.';

CREATE TABLE public.dead_letters (
    delivery uuid NOT NULL,
    event uuid NOT NULL,
    endpoint uuid NOT NULL,
    account uuid NOT NULL,
    type text NOT NULL,
    reason text NOT NULL,
    attempts integer NOT NULL,
    last_status_code smallint NOT NULL,
    last_error text NOT NULL,
    replayed_from uuid,
    replay_job uuid,
    died_at timestamp with time zone NOT NULL,
    resolved_at timestamp with time zone,
    resolution text,
    resolved_by text DEFAULT ''::text NOT NULL,
    note text DEFAULT ''::text NOT NULL,
    replay uuid,
    CONSTRAINT dead_letters_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT dead_letters_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT dead_letters_replay CHECK (((resolution IS DISTINCT FROM 'replayed'::text) OR (replay IS NOT NULL))),
    CONSTRAINT dead_letters_resolution_check CHECK ((resolution = ANY (ARRAY['replayed'::text, 'discarded'::text]))),
    CONSTRAINT dead_letters_resolved CHECK (((resolved_at IS NULL) = (resolution IS NULL)))
);

COMMENT ON TABLE public.dead_letters IS 'Deliveries that died and wait for a person, and what the person did. Resolving a dead letter keeps its row.';

CREATE TABLE public.endpoint_health (
    endpoint uuid NOT NULL,
    number bigint NOT NULL,
    account uuid NOT NULL,
    status text NOT NULL,
    reason text NOT NULL,
    warnings integer NOT NULL,
    since timestamp with time zone NOT NULL,
    last boolean NOT NULL,
    CONSTRAINT endpoint_health_number_check CHECK ((number >= 1)),
    CONSTRAINT endpoint_health_status_check CHECK ((status = ANY (ARRAY['healthy'::text, 'warned'::text, 'disabled'::text]))),
    CONSTRAINT endpoint_health_warnings_check CHECK ((warnings >= 0))
);

COMMENT ON TABLE public.endpoint_health IS 'The health of endpoints over days: a row for each change. Append-only, but for last.';

COMMENT ON COLUMN public.endpoint_health.last IS 'Whether the row is the newest one of its endpoint. PutHealth sets it, and clears it in the row before.';

CREATE TABLE public.endpoint_secrets (
    id uuid NOT NULL,
    endpoint uuid NOT NULL,
    encrypted bytea NOT NULL,
    public text,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    CONSTRAINT endpoint_secrets_encrypted_check CHECK ((octet_length(encrypted) > 0)),
    CONSTRAINT endpoint_secrets_public_check CHECK ((public <> ''::text))
);

COMMENT ON TABLE public.endpoint_secrets IS 'The secrets that sign an endpoint''s requests; several during a rotation.';

COMMENT ON COLUMN public.endpoint_secrets.public IS 'The public key of a private key; null: the secret is symmetric.';

CREATE TABLE public.endpoints (
    id uuid NOT NULL,
    account uuid NOT NULL,
    kind text NOT NULL,
    uid text,
    url text NOT NULL,
    description text NOT NULL,
    event_types text[] NOT NULL,
    status text NOT NULL,
    status_reason text NOT NULL,
    status_since timestamp with time zone NOT NULL,
    policy text NOT NULL,
    credentials bytea,
    full_since timestamp with time zone,
    verified_at timestamp with time zone,
    revision bigint NOT NULL,
    version bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT endpoints_credentials_check CHECK ((octet_length(credentials) > 0)),
    CONSTRAINT endpoints_kind_check CHECK ((kind = ANY (ARRAY['http'::text, 'inspector'::text]))),
    CONSTRAINT endpoints_revision_check CHECK ((revision >= 1)),
    CONSTRAINT endpoints_status_check CHECK ((status = ANY (ARRAY['enabled'::text, 'paused'::text, 'disabled'::text, 'deleted'::text]))),
    CONSTRAINT endpoints_uid_check CHECK ((uid <> ''::text))
);

COMMENT ON TABLE public.endpoints IS 'Where events are sent, which types are subscribed to, and the policy of sending.';

COMMENT ON COLUMN public.endpoints.kind IS 'It never changes. An inspector has no URL.';

COMMENT ON COLUMN public.endpoints.policy IS 'The JSON document of store.EncodePolicy.';

COMMENT ON COLUMN public.endpoints.credentials IS 'Encrypted; null: there are none.';

COMMENT ON COLUMN public.endpoints.full_since IS 'Since when as many deliveries wait as the account may have; null: fewer do. MarkFull writes it.';

COMMENT ON COLUMN public.endpoints.verified_at IS 'When its owner proved that this URL wants events; null: never.';

COMMENT ON COLUMN public.endpoints.version IS 'The version of the endpoint''s last change: what subscriptions.version was raised to.';

CREATE TABLE public.event_types (
    name text NOT NULL COLLATE pg_catalog."C",
    description text NOT NULL,
    example text NOT NULL,
    created_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.event_types IS 'The catalogue of event types. It documents; it does not restrict.';

CREATE TABLE public.expunges (
    id uuid NOT NULL,
    event uuid,
    endpoint uuid,
    account uuid NOT NULL,
    made_by text NOT NULL,
    events bigint DEFAULT 0 NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    dead_letters bigint DEFAULT 0 NOT NULL,
    other bigint DEFAULT 0 NOT NULL,
    archived bigint DEFAULT 0 NOT NULL,
    digest bytea DEFAULT decode(repeat('00'::text, 32), 'hex'::text) NOT NULL,
    empty_since timestamp with time zone,
    archive_day timestamp with time zone,
    archive_done boolean DEFAULT false NOT NULL,
    archive_held boolean DEFAULT false NOT NULL,
    archive_fault text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT expunges_archived_check CHECK ((archived >= 0)),
    CONSTRAINT expunges_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT expunges_dead_letters_check CHECK ((dead_letters >= 0)),
    CONSTRAINT expunges_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT expunges_events_check CHECK ((events >= 0)),
    CONSTRAINT expunges_other_check CHECK ((other >= 0))
);

COMMENT ON TABLE public.expunges IS 'Events, endpoints and accounts that were removed on request. A row stays as the proof: it has ids, counts and a digest.';

COMMENT ON COLUMN public.expunges.event IS 'Null: the endpoint is removed, or the account.';

COMMENT ON COLUMN public.expunges.endpoint IS 'Null: the event is removed, or the account.';

COMMENT ON COLUMN public.expunges.archived IS 'Records that were removed from the archive.';

COMMENT ON COLUMN public.expunges.digest IS 'postrider.ExpungeDigest of the events; zero: none was removed.';

COMMENT ON COLUMN public.expunges.empty_since IS 'Since when nothing was found; null: something was found the last time.';

COMMENT ON COLUMN public.expunges.archive_day IS 'The next day of ids to remove in the archive; null: it has not begun there.';

COMMENT ON COLUMN public.expunges.archive_done IS 'All days of the archive were looked at.';

COMMENT ON COLUMN public.expunges.archive_held IS 'Not all parts of the archive were there, or no archive is set.';

COMMENT ON COLUMN public.expunges.archive_fault IS 'Why it did not go on in the archive the last time; empty: it did.';

COMMENT ON COLUMN public.expunges.ended_at IS 'Null: it goes on.';

CREATE TABLE public.fanouts (
    event uuid NOT NULL,
    account uuid NOT NULL,
    type text NOT NULL,
    up_to uuid NOT NULL,
    cursor uuid NOT NULL,
    token bigint,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.fanouts IS 'Fan-out jobs: events whose deliveries are created in chunks. The last chunk deletes the row.';

COMMENT ON COLUMN public.fanouts.due_at IS 'When the job is due; with a token, when its lease ends.';

CREATE TABLE public.hold (
    since timestamp with time zone,
    reason text DEFAULT ''::text NOT NULL,
    last_event uuid,
    timeline text,
    sequences bigint DEFAULT 0 NOT NULL,
    single boolean DEFAULT true NOT NULL,
    CONSTRAINT hold_single_check CHECK (single)
);

COMMENT ON TABLE public.hold IS 'One row: whether the store is held, because it was restored from a backup. Then no delivery is claimed.';

COMMENT ON COLUMN public.hold.since IS 'Null: the store is not held.';

COMMENT ON COLUMN public.hold.last_event IS 'The last event before the hold; null: there was none.';

COMMENT ON COLUMN public.hold.timeline IS 'The timeline of the server at the last start of a node; another one says that the server was recovered or promoted. Null: it is not known.';

COMMENT ON COLUMN public.hold.sequences IS 'New sequences are above it. PutHold sets it to the time, in microseconds since 1970: more than any sequence that was given to an event which the backup does not have.';

CREATE TABLE public.idempotency_keys (
    account uuid NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    event uuid NOT NULL,
    hash bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT idempotency_keys_hash_check CHECK ((octet_length(hash) = 32))
);

COMMENT ON TABLE public.idempotency_keys IS 'The event that owns a key, and the hash of its content. Not partitioned: a key is unique across days.';

CREATE TABLE public.inspections (
    id uuid NOT NULL,
    endpoint uuid NOT NULL,
    delivery uuid NOT NULL,
    event uuid NOT NULL,
    type text NOT NULL,
    attempt integer NOT NULL,
    document text NOT NULL,
    body bytea,
    body_bytes integer NOT NULL,
    CONSTRAINT inspections_attempt_check CHECK ((attempt >= 1)),
    CONSTRAINT inspections_body_bytes_check CHECK ((body_bytes >= 0)),
    CONSTRAINT inspections_body_check CHECK ((octet_length(body) <= 262144))
);

COMMENT ON TABLE public.inspections IS 'Requests that inspector endpoints got: the newest hundred of each, for a day. The id carries the time.';

COMMENT ON COLUMN public.inspections.document IS 'The header and the verdicts, by store.EncodeInspection.';

COMMENT ON COLUMN public.inspections.body IS 'The beginning of the body, not compressed.';

COMMENT ON COLUMN public.inspections.body_bytes IS 'Length of the whole body.';

CREATE TABLE public.keyring (
    text bytea NOT NULL,
    single boolean DEFAULT true NOT NULL,
    CONSTRAINT keyring_single_check CHECK (single),
    CONSTRAINT keyring_text_check CHECK ((octet_length(text) > 0))
);

COMMENT ON TABLE public.keyring IS 'At most one row: the text of the keyring that encrypts secrets and credentials, or the note that each server has it from outside.';

CREATE TABLE public.nodes (
    incarnation bigint NOT NULL,
    instance bytea NOT NULL,
    host text NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    ttl bigint NOT NULL,
    leaving boolean NOT NULL,
    started_at timestamp with time zone NOT NULL,
    locked_on timestamp with time zone,
    free_since timestamp with time zone,
    CONSTRAINT nodes_incarnation_check CHECK (((incarnation >= 0) AND (incarnation <= '4294967295'::bigint))),
    CONSTRAINT nodes_instance_check CHECK ((octet_length(instance) = 16)),
    CONSTRAINT nodes_ttl_check CHECK ((ttl > 0))
);

COMMENT ON TABLE public.nodes IS 'The nodes that are alive, and the dead ones that are not reclaimed yet.';

COMMENT ON COLUMN public.nodes.host IS 'Name of its machine, for people. Written by its first heartbeat; empty: the machine has none.';

COMMENT ON COLUMN public.nodes.ttl IS 'Microseconds after seen_at at which the node is dead.';

COMMENT ON COLUMN public.nodes.locked_on IS 'When the server was started on which the node has its lock; null: it has none, and ttl alone decides.';

COMMENT ON COLUMN public.nodes.free_since IS 'Since when other nodes see the lock of this node free, without a heartbeat of it in between; null: they see it held.';

CREATE TABLE public.notice_destinations (
    id uuid NOT NULL,
    account uuid,
    channel text NOT NULL,
    address text NOT NULL,
    language text NOT NULL,
    kinds text[],
    unsubscribed text[] NOT NULL,
    confirmed_at timestamp with time zone,
    refused_at timestamp with time zone,
    ask text NOT NULL,
    told_until uuid,
    last_sent_at timestamp with time zone,
    failures integer NOT NULL,
    last_error text NOT NULL,
    token bigint,
    due_at timestamp with time zone NOT NULL,
    CONSTRAINT notice_destinations_ask_check CHECK ((ask = ANY (ARRAY[''::text, 'confirmation'::text, 'test'::text]))),
    CONSTRAINT notice_destinations_channel_check CHECK ((channel = ANY (ARRAY['email'::text, 'slack'::text]))),
    CONSTRAINT notice_destinations_check CHECK (((confirmed_at IS NULL) = (told_until IS NULL))),
    CONSTRAINT notice_destinations_failures_check CHECK ((failures >= 0))
);

COMMENT ON TABLE public.notice_destinations IS 'Where notices are sent. No row says what was sent: told_until does.';

COMMENT ON COLUMN public.notice_destinations.account IS 'Null: the operator''s, for the notices of all accounts.';

COMMENT ON COLUMN public.notice_destinations.kinds IS 'The kinds of notices that it gets; null: all.';

COMMENT ON COLUMN public.notice_destinations.unsubscribed IS 'The kinds that its reader does not want; *: all.';

COMMENT ON COLUMN public.notice_destinations.confirmed_at IS 'Null: it gets nothing but the message that asks for it.';

COMMENT ON COLUMN public.notice_destinations.refused_at IS 'When the server refused the address for good; null: it did not.';

COMMENT ON COLUMN public.notice_destinations.ask IS 'The message that a person asked for.';

COMMENT ON COLUMN public.notice_destinations.told_until IS 'Notices with lesser ids are told.';

COMMENT ON COLUMN public.notice_destinations.token IS 'Of the lease; null: it is not leased.';

COMMENT ON COLUMN public.notice_destinations.due_at IS 'The earliest time of the next message, or the end of the lease.';

CREATE TABLE public.notices (
    id uuid NOT NULL,
    account uuid,
    kind text NOT NULL,
    object text NOT NULL,
    occurrence text NOT NULL,
    details jsonb NOT NULL
);

COMMENT ON TABLE public.notices IS 'What people should be told: a row for each notice. The id carries the time. Append-only.';

COMMENT ON COLUMN public.notices.account IS 'Whose notice it is; null: for operators alone.';

COMMENT ON COLUMN public.notices.object IS 'Id of an endpoint or a replay job, or name of a chore.';

COMMENT ON COLUMN public.notices.occurrence IS 'Tells it from other notices of its kind and object.';

CREATE TABLE public.notices_published (
    last uuid NOT NULL
);

COMMENT ON TABLE public.notices_published IS 'NoticesPublished: one row.';

COMMENT ON COLUMN public.notices_published.last IS 'The last notice whose operational event was published, or needs none. All zeros: none yet.';

CREATE TABLE public.ordering_keys (
    account uuid NOT NULL,
    ordering_key text NOT NULL COLLATE pg_catalog."C",
    last bigint NOT NULL,
    CONSTRAINT ordering_keys_last_check CHECK ((last >= 1))
);

COMMENT ON TABLE public.ordering_keys IS 'The last sequence of each ordering key. A publish locks the row until its commit, so sequences have the order of commits. What ends an ordered delivery locks the row too: under this lock it is decided which delivery is the head.';

CREATE TABLE public.paused_keys (
    endpoint uuid NOT NULL,
    ordering_key text NOT NULL COLLATE pg_catalog."C",
    account uuid NOT NULL,
    delivery uuid NOT NULL,
    sequence bigint NOT NULL,
    since timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.paused_keys IS 'The ordering keys that a dead letter pauses at an endpoint.';

COMMENT ON COLUMN public.paused_keys.delivery IS 'The dead letter that pauses the key. The pause ends when it is replayed or discarded.';

CREATE TABLE public.portal (
    name text NOT NULL,
    colour text NOT NULL,
    frame_origins text[] NOT NULL,
    options text[],
    logo bytea,
    logo_hash bytea,
    updated_at timestamp with time zone,
    single boolean DEFAULT true NOT NULL,
    CONSTRAINT portal_logo_hash_check CHECK ((octet_length(logo_hash) = 32)),
    CONSTRAINT portal_single_check CHECK (single)
);

COMMENT ON TABLE public.portal IS 'One row: the settings of the customer portal.';

COMMENT ON COLUMN public.portal.options IS 'The policy options that portal sessions may set; null: the standard ones.';

COMMENT ON COLUMN public.portal.logo IS 'A PNG; null: there is none.';

CREATE TABLE public.postrider_migrations (
    id integer NOT NULL,
    version_id bigint NOT NULL,
    is_applied boolean NOT NULL,
    tstamp timestamp without time zone DEFAULT now() NOT NULL
);

ALTER TABLE public.postrider_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.postrider_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.probe (
    id integer NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT probe_id_check CHECK ((id = 1))
);

COMMENT ON TABLE public.probe IS 'ProbeWrite: one row that is written in order to learn whether the database accepts writes.';

CREATE TABLE public.queue (
    id uuid NOT NULL,
    event uuid NOT NULL,
    endpoint uuid NOT NULL,
    account uuid NOT NULL,
    type text NOT NULL,
    lane smallint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    claims integer NOT NULL,
    step integer NOT NULL,
    losses integer NOT NULL,
    deaths_alone smallint DEFAULT 0 NOT NULL,
    parked boolean DEFAULT false NOT NULL,
    token bigint,
    expires_at timestamp with time zone NOT NULL,
    replayed_from uuid,
    replay_job uuid,
    ordering_key text COLLATE pg_catalog."C",
    sequence bigint,
    pauses boolean,
    CONSTRAINT queue_claims_check CHECK ((claims >= 0)),
    CONSTRAINT queue_deaths_alone_check CHECK ((deaths_alone >= 0)),
    CONSTRAINT queue_lane_check CHECK (((lane >= 0) AND (lane <= 3))),
    CONSTRAINT queue_leased CHECK (((token IS NULL) OR (claims >= 1))),
    CONSTRAINT queue_losses_check CHECK ((losses >= 0)),
    CONSTRAINT queue_order CHECK ((num_nulls(ordering_key, sequence, pauses) = ANY (ARRAY[0, 3]))),
    CONSTRAINT queue_ordering_key_check CHECK ((ordering_key <> ''::text)),
    CONSTRAINT queue_parked CHECK (((NOT parked) OR ((token IS NULL) AND (lane = 3) AND (due_at = 'infinity'::timestamp with time zone)))),
    CONSTRAINT queue_sequence_check CHECK ((sequence >= 1)),
    CONSTRAINT queue_step_check CHECK ((step >= 0)),
    CONSTRAINT queue_token_check CHECK ((token <> 0))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='10000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE public.queue IS 'One narrow row for each pending delivery. It is deleted when the delivery ends.';

COMMENT ON COLUMN public.queue.lane IS '0 first, 1 retry, 2 bulk, 3 suspect.';

COMMENT ON COLUMN public.queue.due_at IS 'When the delivery is due; with a token, when its lease ends; infinity: it is not the head of its ordering key, its key is paused, or it is parked.';

COMMENT ON COLUMN public.queue.claims IS 'The number of the attempt under way, or else of the last one made.';

COMMENT ON COLUMN public.queue.losses IS 'Leases in a row that ended without a settlement.';

COMMENT ON COLUMN public.queue.deaths_alone IS 'Nodes in a row that died while this was the only row of lane 3 that they had leased.';

COMMENT ON COLUMN public.queue.parked IS 'Whether it waits for a person, who calls MakeDue or Cancel.';

COMMENT ON COLUMN public.queue.ordering_key IS 'Set for ordered deliveries only, as are sequence and pauses. A delivery to an endpoint without order has none, even if its event has a key.';

COMMENT ON COLUMN public.queue.pauses IS 'Whether its end as a dead letter pauses the key.';

CREATE TABLE public.quota_use (
    account uuid NOT NULL,
    rate bigint NOT NULL,
    burst bigint NOT NULL,
    events double precision NOT NULL,
    at timestamp with time zone NOT NULL,
    asked bigint NOT NULL,
    day date NOT NULL,
    bytes bigint NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE public.quota_use IS 'What accounts with a limit have used on all nodes. A row is written at most ten times a second by each node.';

COMMENT ON COLUMN public.quota_use.events IS 'How many events the account might publish at the time at; it grows by rate up to burst.';

COMMENT ON COLUMN public.quota_use.asked IS 'Events that were ever published, those that were refused among them.';

COMMENT ON COLUMN public.quota_use.bytes IS 'Data of the events that were accepted on the day, of UTC.';

CREATE TABLE public.quotas (
    account uuid NOT NULL,
    events_per_second bigint NOT NULL,
    burst bigint NOT NULL,
    bytes_per_day bigint NOT NULL,
    endpoints bigint NOT NULL,
    backlog bigint NOT NULL,
    version bigint NOT NULL
);

COMMENT ON TABLE public.quotas IS 'What single accounts may use, where that is not the default: 0 is the default, -1 no limit.';

COMMENT ON COLUMN public.quotas.version IS 'The version of the last change: what subscriptions.version was raised to.';

CREATE TABLE public.replay_jobs (
    id uuid NOT NULL,
    account uuid,
    action text NOT NULL,
    filter text NOT NULL,
    per_second integer NOT NULL,
    made_by text NOT NULL,
    note text NOT NULL,
    expected bigint NOT NULL,
    expected_exact boolean NOT NULL,
    status text NOT NULL,
    error text NOT NULL,
    cursor uuid NOT NULL,
    held text NOT NULL,
    handled bigint DEFAULT 0 NOT NULL,
    bytes_gone bigint DEFAULT 0 NOT NULL,
    replay_pending bigint DEFAULT 0 NOT NULL,
    endpoint_deleted bigint DEFAULT 0 NOT NULL,
    resolved bigint DEFAULT 0 NOT NULL,
    token bigint,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT replay_jobs_action_check CHECK ((action = ANY (ARRAY['replay'::text, 'discard'::text]))),
    CONSTRAINT replay_jobs_bytes_gone_check CHECK ((bytes_gone >= 0)),
    CONSTRAINT replay_jobs_ended CHECK (((ended_at IS NULL) = (status = ANY (ARRAY['running'::text, 'paused'::text])))),
    CONSTRAINT replay_jobs_endpoint_deleted_check CHECK ((endpoint_deleted >= 0)),
    CONSTRAINT replay_jobs_expected_check CHECK ((expected >= 0)),
    CONSTRAINT replay_jobs_handled_check CHECK ((handled >= 0)),
    CONSTRAINT replay_jobs_per_second_check CHECK ((per_second >= 1)),
    CONSTRAINT replay_jobs_replay_pending_check CHECK ((replay_pending >= 0)),
    CONSTRAINT replay_jobs_resolved_check CHECK ((resolved >= 0)),
    CONSTRAINT replay_jobs_status_check CHECK ((status = ANY (ARRAY['running'::text, 'paused'::text, 'done'::text, 'cancelled'::text, 'failed'::text]))),
    CONSTRAINT replay_jobs_token_check CHECK ((token <> 0))
);

COMMENT ON TABLE public.replay_jobs IS 'Jobs that replay or discard what a filter selects. Ended ones stay.';

COMMENT ON COLUMN public.replay_jobs.account IS 'Null: the job is about all accounts.';

COMMENT ON COLUMN public.replay_jobs.filter IS 'The JSON document of store.EncodeReplayFilter.';

COMMENT ON COLUMN public.replay_jobs.expected IS 'The number of matches that was counted when the job was made; with expected_exact false there were more.';

COMMENT ON COLUMN public.replay_jobs.cursor IS 'The last delivery that is done, but for those of held endpoints.';

COMMENT ON COLUMN public.replay_jobs.held IS 'Endpoints that had too many of the job''s deliveries pending, each with the last delivery that is done of it: the JSON document of store.EncodeHeld.';

COMMENT ON COLUMN public.replay_jobs.due_at IS 'When the job is due; with a token, when its lease ends.';

CREATE TABLE public.restored_records (
    id uuid NOT NULL,
    number integer NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    account uuid NOT NULL,
    event uuid NOT NULL,
    endpoint uuid NOT NULL,
    type text NOT NULL,
    record bytea NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT restored_records_kind_check CHECK ((kind = ANY (ARRAY['events'::text, 'attempts'::text, 'bodies'::text]))),
    CONSTRAINT restored_records_number_check CHECK ((number >= 0))
);

COMMENT ON TABLE public.restored_records IS 'Records that people have copied back from the archive: JSON. Nothing sends them.';

COMMENT ON COLUMN public.restored_records.number IS 'Of the attempt; 0: an event.';

COMMENT ON COLUMN public.restored_records.endpoint IS 'The zero id: an event.';

COMMENT ON COLUMN public.restored_records.at IS 'When it was restored.';

CREATE TABLE public.rollup_deltas (
    at timestamp with time zone NOT NULL,
    counted bytea,
    endpoints uuid[],
    accounts uuid[],
    types text[],
    outcomes text[],
    numbers integer[],
    statuses text[],
    CONSTRAINT rollup_deltas_form CHECK (((counted IS NULL) = (endpoints IS NOT NULL)))
)
WITH (toast_tuple_target='8160', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='10000');
ALTER TABLE ONLY public.rollup_deltas ALTER COLUMN counted SET STORAGE EXTERNAL;

COMMENT ON TABLE public.rollup_deltas IS 'What a transaction has recorded: one row for each one that records attempts or ends deliveries. FoldRollups deletes the rows, all of them every ten seconds or so; it needs no index.';

COMMENT ON COLUMN public.rollup_deltas.counted IS 'The bytes of store.Deltas, of a transaction that knows beforehand what it records; null: the arrays have one element for each record.';

CREATE TABLE public.rollup_positions (
    step smallint NOT NULL,
    at timestamp with time zone NOT NULL,
    scope uuid NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT rollup_positions_step_check CHECK (((step >= 0) AND (step <= 1)))
);

COMMENT ON TABLE public.rollup_positions IS 'Up to where the rollups of a step were added to those of the next one, in the order of rollups_at. Two rows.';

CREATE TABLE public.rollups (
    scope uuid NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    step smallint NOT NULL,
    at timestamp with time zone NOT NULL,
    counts bytea NOT NULL,
    responses bytea,
    latencies bytea,
    delivered bigint NOT NULL,
    dead bigint NOT NULL,
    CONSTRAINT rollups_step_check CHECK (((step >= 0) AND (step <= 2)))
)
WITH (fillfactor='70');

COMMENT ON TABLE public.rollups IS 'What happened in a minute (step 0), an hour (1) or a day (2): to all deliveries (scope is the zero id), those of an account or those of an endpoint; of all types (type is empty) or of one. Written under the lock of the rollups alone.';

COMMENT ON COLUMN public.rollups.counts IS 'The bytes of postrider.Counts; responses and latencies are those of postrider.Sketch, null: an empty one.';

COMMENT ON COLUMN public.rollups.delivered IS 'As in counts, for HealthInputs and EndpointStates; dead too.';

CREATE TABLE public.search_terms (
    term text NOT NULL COLLATE pg_catalog."C",
    id uuid NOT NULL,
    account uuid NOT NULL,
    CONSTRAINT search_terms_term_check CHECK ((term <> ''::text))
);

COMMENT ON TABLE public.search_terms IS 'The texts by which people find accounts and endpoints: parts of names and URLs, lower-case. Written with each account and endpoint.';

COMMENT ON COLUMN public.search_terms.id IS 'Of the endpoint; of an account, the same as account.';

CREATE TABLE public.sessions (
    id uuid NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    subject text NOT NULL,
    key uuid,
    account uuid,
    scopes text[] NOT NULL,
    options text[],
    locale text NOT NULL,
    embedded boolean NOT NULL,
    code bytea,
    code_expires_at timestamp with time zone,
    hash bytea,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT sessions_code_check CHECK ((octet_length(code) = 32)),
    CONSTRAINT sessions_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT sessions_kind_check CHECK ((kind = ANY (ARRAY['operator'::text, 'portal'::text])))
);

COMMENT ON TABLE public.sessions IS 'Sessions of the pages; only the SHA-256 of tokens and codes are kept.';

COMMENT ON COLUMN public.sessions.key IS 'The key that issued the session; null: no key did.';

COMMENT ON COLUMN public.sessions.account IS 'Null: the session reaches every account.';

COMMENT ON COLUMN public.sessions.options IS 'The policy options that it may set; null: all.';

COMMENT ON COLUMN public.sessions.code IS 'Of the one-time link; null: there is none.';

COMMENT ON COLUMN public.sessions.hash IS 'Of the token; null: the link was not opened.';

CREATE TABLE public.shards (
    shard smallint NOT NULL,
    owner bigint,
    CONSTRAINT shards_shard_check CHECK (((shard >= 0) AND (shard <= 255)))
);

COMMENT ON TABLE public.shards IS 'The 256 shards of the endpoints, and the incarnation that owns each; null: nobody does.';

CREATE TABLE public.subscriptions (
    version bigint NOT NULL,
    single boolean DEFAULT true NOT NULL,
    CONSTRAINT subscriptions_single_check CHECK (single)
);

COMMENT ON TABLE public.subscriptions IS 'One row: the number of changes of endpoints and secrets. A change locks the row until its commit, so versions become visible in their order.';

CREATE TABLE public.tables_noted (
    id integer NOT NULL,
    version bigint NOT NULL,
    fingerprint text NOT NULL,
    oldest bigint NOT NULL,
    facts text NOT NULL,
    CONSTRAINT tables_noted_id_check CHECK ((id = 1))
);

COMMENT ON TABLE public.tables_noted IS 'One row that each migration writes: which tables these are, so that a program of another state refuses them.';

COMMENT ON COLUMN public.tables_noted.fingerprint IS 'Of the statements of all migrations up to the version.';

COMMENT ON COLUMN public.tables_noted.oldest IS 'Programs that know this version of the tables, or a later one, may use them.';

COMMENT ON COLUMN public.tables_noted.facts IS 'The columns and constraints, a line each.';

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_hash_key UNIQUE (hash);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.archive_keys
    ADD CONSTRAINT archive_keys_pkey PRIMARY KEY (account);

ALTER TABLE ONLY public.archive_lease
    ADD CONSTRAINT archive_lease_pkey PRIMARY KEY (single);

ALTER TABLE ONLY public.archive_parts
    ADD CONSTRAINT archive_parts_pkey PRIMARY KEY (kind, day, number);

ALTER TABLE ONLY public.attempt_bodies
    ADD CONSTRAINT attempt_bodies_pkey PRIMARY KEY (delivery, number);

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (delivery, number);

ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.circuits
    ADD CONSTRAINT circuits_pkey PRIMARY KEY (endpoint);

ALTER TABLE ONLY public.clock
    ADD CONSTRAINT clock_pkey PRIMARY KEY (single);

ALTER TABLE ONLY public.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (delivery);

ALTER TABLE ONLY public.endpoint_health
    ADD CONSTRAINT endpoint_health_pkey PRIMARY KEY (endpoint, number);

ALTER TABLE ONLY public.endpoint_secrets
    ADD CONSTRAINT endpoint_secrets_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.endpoints
    ADD CONSTRAINT endpoints_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.event_types
    ADD CONSTRAINT event_types_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.expunges
    ADD CONSTRAINT expunges_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.fanouts
    ADD CONSTRAINT fanouts_pkey PRIMARY KEY (event);

ALTER TABLE ONLY public.hold
    ADD CONSTRAINT hold_pkey PRIMARY KEY (single);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (key, account);

ALTER TABLE ONLY public.inspections
    ADD CONSTRAINT inspections_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.kept_events
    ADD CONSTRAINT kept_events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keyring
    ADD CONSTRAINT keyring_pkey PRIMARY KEY (single);

ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (incarnation);

ALTER TABLE ONLY public.notice_destinations
    ADD CONSTRAINT notice_destinations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.notices
    ADD CONSTRAINT notices_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.ordering_keys
    ADD CONSTRAINT ordering_keys_pkey PRIMARY KEY (ordering_key, account);

ALTER TABLE ONLY public.paused_keys
    ADD CONSTRAINT paused_keys_pkey PRIMARY KEY (endpoint, ordering_key);

ALTER TABLE ONLY public.portal
    ADD CONSTRAINT portal_pkey PRIMARY KEY (single);

ALTER TABLE ONLY public.postrider_migrations
    ADD CONSTRAINT postrider_migrations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.probe
    ADD CONSTRAINT probe_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.quota_use
    ADD CONSTRAINT quota_use_pkey PRIMARY KEY (account);

ALTER TABLE ONLY public.quotas
    ADD CONSTRAINT quotas_pkey PRIMARY KEY (account);

ALTER TABLE ONLY public.replay_jobs
    ADD CONSTRAINT replay_jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.restored_records
    ADD CONSTRAINT restored_records_pkey PRIMARY KEY (id, number, kind);

ALTER TABLE ONLY public.rollup_positions
    ADD CONSTRAINT rollup_positions_pkey PRIMARY KEY (step);

ALTER TABLE ONLY public.rollups
    ADD CONSTRAINT rollups_pkey PRIMARY KEY (scope, type, step, at);

ALTER TABLE ONLY public.search_terms
    ADD CONSTRAINT search_terms_pkey PRIMARY KEY (term, id);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_code_key UNIQUE (code);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_hash_key UNIQUE (hash);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.shards
    ADD CONSTRAINT shards_pkey PRIMARY KEY (shard);

ALTER TABLE ONLY public.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (single);

ALTER TABLE ONLY public.tables_noted
    ADD CONSTRAINT tables_noted_pkey PRIMARY KEY (id);

CREATE INDEX accounts_deleted ON public.accounts USING btree (id) WHERE (deleted_at IS NOT NULL);

COMMENT ON INDEX public.accounts_deleted IS 'DeleteEndpoints: the accounts whose endpoints must be deleted.';

COMMENT ON INDEX public.accounts_pkey IS 'Accounts: one by id, and the list, newest first.';

CREATE INDEX accounts_retention ON public.accounts USING btree (id) WHERE ((((keep_events + keep_attempts) + keep_bodies) + keep_keys) > 0);

COMMENT ON INDEX public.accounts_retention IS 'Accounts with a retention of their own.';

CREATE UNIQUE INDEX accounts_uid ON public.accounts USING btree (uid) WHERE ((uid IS NOT NULL) AND (deleted_at IS NULL));

COMMENT ON INDEX public.accounts_uid IS 'Accounts by uid, which is unique among those that are not deleted.';

CREATE INDEX api_keys_account ON public.api_keys USING btree (account, id) WHERE (account IS NOT NULL);

COMMENT ON INDEX public.api_keys_account IS 'DeleteAccount, and Keys by account: the keys of an account.';

COMMENT ON INDEX public.api_keys_hash_key IS 'Keys by hash: every request that is not answered from the cache.';

COMMENT ON INDEX public.api_keys_pkey IS 'Keys: the list, newest first; RevokeKey, TouchKey.';

COMMENT ON INDEX public.archive_keys_pkey IS 'ArchiveKey, PutArchiveKey, DeleteArchiveKey, Reencrypt: one. EncryptedValues: all.';

COMMENT ON INDEX public.archive_lease_pkey IS 'LeaseArchive. Keeps the table to its one row.';

COMMENT ON INDEX public.archive_parts_pkey IS 'ArchiveDay, PutArchivePart, RedoArchiveDay, ArchiveParts, DeleteOld, ExpungeRows, ReplaceArchivePart: the parts of a day, in order.';

COMMENT ON INDEX public.attempt_bodies_pkey IS 'Attempts of a delivery.';

CREATE INDEX attempts_account ON ONLY public.attempts USING btree (account, delivery);

COMMENT ON INDEX public.attempts_account IS 'Deliveries of an account, newest first. OldRows.';

CREATE INDEX attempts_decided ON ONLY public.attempts USING btree (status_after, delivery) WHERE (outcome = 'none'::text);

COMMENT ON INDEX public.attempts_decided IS 'Deliveries that were skipped or cancelled. Requests are not in it.';

CREATE INDEX attempts_decided_account ON ONLY public.attempts USING btree (account, status_after, delivery) WHERE (outcome = 'none'::text);

COMMENT ON INDEX public.attempts_decided_account IS 'Deliveries of an account that were skipped or cancelled. Requests are not in it.';

CREATE INDEX attempts_decided_endpoint ON ONLY public.attempts USING btree (endpoint, status_after, delivery) WHERE (outcome = 'none'::text);

COMMENT ON INDEX public.attempts_decided_endpoint IS 'Deliveries of an endpoint that were skipped or cancelled. Requests are not in it.';

CREATE INDEX attempts_endpoint ON ONLY public.attempts USING btree (endpoint, delivery);

COMMENT ON INDEX public.attempts_endpoint IS 'Deliveries of an endpoint, newest first.';

CREATE INDEX attempts_event ON ONLY public.attempts USING btree (event);

COMMENT ON INDEX public.attempts_event IS 'Deliveries and Attempts of an event.';

COMMENT ON INDEX public.attempts_pkey IS 'Settle: a settlement that is repeated meets its first record here. Attempts of a delivery.';

CREATE INDEX attempts_replay_job ON ONLY public.attempts USING btree (replay_job, delivery) WHERE (replay_job IS NOT NULL);

COMMENT ON INDEX public.attempts_replay_job IS 'Deliveries of a replay job. Other rows are not in it.';

CREATE INDEX attempts_replay_job_decided ON ONLY public.attempts USING btree (replay_job) WHERE ((replay_job IS NOT NULL) AND (outcome = 'none'::text));

COMMENT ON INDEX public.attempts_replay_job_decided IS 'ReplayJobs: how many of its deliveries were cancelled. Other rows are not in it.';

CREATE INDEX attempts_replays ON ONLY public.attempts USING btree (event, endpoint, delivery) WHERE (replayed_from IS NOT NULL);

COMMENT ON INDEX public.attempts_replays IS 'Deliveries with Last: the replays of an event that have ended. Other rows are not in it.';

CREATE INDEX audit_account ON public.audit USING btree (account, id) WHERE (account IS NOT NULL);

COMMENT ON INDEX public.audit_account IS 'AuditEntries by account.';

CREATE INDEX audit_action ON public.audit USING btree (action, id);

COMMENT ON INDEX public.audit_action IS 'AuditEntries by action.';

CREATE INDEX audit_key ON public.audit USING btree (key, id) WHERE (key IS NOT NULL);

COMMENT ON INDEX public.audit_key IS 'AuditEntries by key.';

CREATE INDEX audit_object ON public.audit USING btree (object_id, id) WHERE (object_id IS NOT NULL);

COMMENT ON INDEX public.audit_object IS 'AuditEntries by object.';

COMMENT ON INDEX public.audit_pkey IS 'AuditEntries, newest first.';

CREATE INDEX audit_session ON public.audit USING btree (session, id) WHERE (session IS NOT NULL);

COMMENT ON INDEX public.audit_session IS 'AuditEntries by session.';

CREATE INDEX circuits_failing ON public.circuits USING btree (endpoint) WHERE (failing_since IS NOT NULL);

COMMENT ON INDEX public.circuits_failing IS 'HealthInputs: the endpoints that accept nothing.';

COMMENT ON INDEX public.circuits_pkey IS 'PutCircuit and Changes: one. Circuits: the list.';

COMMENT ON INDEX public.clock_pkey IS 'Now. Keeps the table to its one row.';

CREATE INDEX dead_letters_account ON public.dead_letters USING btree (account, delivery);

COMMENT ON INDEX public.dead_letters_account IS 'DeadLetters and Deliveries of an account, newest first.';

CREATE INDEX dead_letters_endpoint ON public.dead_letters USING btree (endpoint, delivery);

COMMENT ON INDEX public.dead_letters_endpoint IS 'DeadLetters and Deliveries of an endpoint, newest first.';

CREATE INDEX dead_letters_event ON public.dead_letters USING btree (event);

COMMENT ON INDEX public.dead_letters_event IS 'Deliveries of an event.';

COMMENT ON INDEX public.dead_letters_pkey IS 'DeadLetters and Deliveries: one, and the list, newest first. Replay, Discard.';

CREATE INDEX dead_letters_reason ON public.dead_letters USING btree (reason, delivery);

COMMENT ON INDEX public.dead_letters_reason IS 'DeadLetters of a reason.';

CREATE INDEX dead_letters_reason_account ON public.dead_letters USING btree (account, reason, delivery);

COMMENT ON INDEX public.dead_letters_reason_account IS 'DeadLetters of an account and a reason.';

CREATE INDEX dead_letters_replay_job ON public.dead_letters USING btree (replay_job, delivery) WHERE (replay_job IS NOT NULL);

COMMENT ON INDEX public.dead_letters_replay_job IS 'Deliveries of a replay job. ReplayJobs: how many of its deliveries died. Other rows are not in it.';

CREATE INDEX dead_letters_replays ON public.dead_letters USING btree (event, endpoint, delivery) WHERE (replayed_from IS NOT NULL);

COMMENT ON INDEX public.dead_letters_replays IS 'Deliveries with Last: the replays of an event that died. Other rows are not in it.';

CREATE INDEX dead_letters_resolved ON public.dead_letters USING btree (resolved_at) WHERE (resolved_at IS NOT NULL);

COMMENT ON INDEX public.dead_letters_resolved IS 'DeleteOld: the resolved ones, oldest first.';

CREATE INDEX dead_letters_unresolved ON public.dead_letters USING btree (account, endpoint, reason, last_status_code, last_error, delivery) WHERE (resolved_at IS NULL);

COMMENT ON INDEX public.dead_letters_unresolved IS 'DeadLetterGroups: a skip scan of the endpoints and causes, and the count of each. Backlog: those of all, of an account or of an endpoint.';

CREATE INDEX endpoint_health_past ON public.endpoint_health USING btree (since) WHERE (NOT last);

COMMENT ON INDEX public.endpoint_health_past IS 'DeleteOld: the changes that are not the last ones, oldest first.';

COMMENT ON INDEX public.endpoint_health_pkey IS 'HealthHistory: the changes of an endpoint, newest first. HealthInputs and EndpointStates: the last one. PutHealth: each number exists once.';

CREATE INDEX endpoint_health_unhealthy ON public.endpoint_health USING btree (endpoint) WHERE (last AND (status <> 'healthy'::text));

COMMENT ON INDEX public.endpoint_health_unhealthy IS 'HealthInputs: the endpoints that are not healthy now. Endpoints: whether one is.';

CREATE INDEX endpoint_secrets_endpoint ON public.endpoint_secrets USING btree (endpoint, id);

COMMENT ON INDEX public.endpoint_secrets_endpoint IS 'Secrets and Changes: the secrets of an endpoint, newest first. EncryptedValues: all of them. Reencrypt: one.';

COMMENT ON INDEX public.endpoint_secrets_pkey IS 'RevokeSecret: one.';

CREATE INDEX endpoint_secrets_public ON public.endpoint_secrets USING btree (id) WHERE (public IS NOT NULL);

COMMENT ON INDEX public.endpoint_secrets_public IS 'PublicKeys: newest first.';

CREATE INDEX endpoints_account ON public.endpoints USING btree (account, id) WHERE (status <> 'deleted'::text);

COMMENT ON INDEX public.endpoints_account IS 'Endpoints of an account, newest first. DeleteEndpoints: those of a deleted one.';

CREATE INDEX endpoints_credentials ON public.endpoints USING btree (id) WHERE (credentials IS NOT NULL);

COMMENT ON INDEX public.endpoints_credentials IS 'EncryptedValues: the endpoints that have credentials. Reencrypt: one.';

CREATE INDEX endpoints_deleted ON public.endpoints USING btree (id) WHERE (status = 'deleted'::text);

COMMENT ON INDEX public.endpoints_deleted IS 'CancelDeleted: the endpoints whose queue must be emptied.';

CREATE INDEX endpoints_full ON public.endpoints USING btree (id) WHERE ((full_since IS NOT NULL) AND (status <> 'deleted'::text));

COMMENT ON INDEX public.endpoints_full IS 'EndpointBacklogs: the endpoints that are marked as full. Others are not in it.';

COMMENT ON INDEX public.endpoints_pkey IS 'Endpoints: one by id, and the list of all, newest first.';

CREATE UNIQUE INDEX endpoints_uid ON public.endpoints USING btree (account, uid) WHERE ((uid IS NOT NULL) AND (status <> 'deleted'::text));

COMMENT ON INDEX public.endpoints_uid IS 'Endpoints by uid, which is unique among those of an account that are not deleted.';

CREATE UNIQUE INDEX endpoints_version ON public.endpoints USING btree (version);

COMMENT ON INDEX public.endpoints_version IS 'Changes: what changed after a version, in order.';

COMMENT ON INDEX public.event_types_pkey IS 'EventTypes: the list by name.';

CREATE INDEX events_account ON ONLY public.events USING btree (account, id);

COMMENT ON INDEX public.events_account IS 'Events of an account, newest first. OldRows.';

CREATE INDEX events_order ON ONLY public.events USING btree (account, ordering_key, id) WHERE (ordering_key <> ''::text);

COMMENT ON INDEX public.events_order IS 'Events of an ordering key, newest first. Events without a key are not in it and cost nothing.';

COMMENT ON INDEX public.events_pkey IS 'Claim and Events: one by id; a publish whose reply was lost waits here for its first try.';

COMMENT ON INDEX public.expunges_pkey IS 'Expunges: one, and the list, newest first. ExpungeRows, NoteExpunge, ReplaceArchivePart.';

CREATE INDEX expunges_running ON public.expunges USING btree (id) WHERE (ended_at IS NULL);

COMMENT ON INDEX public.expunges_running IS 'Expunges: those that go on. Ended ones are not in it.';

CREATE INDEX fanouts_due_at ON public.fanouts USING btree (due_at);

COMMENT ON INDEX public.fanouts_due_at IS 'ClaimFanOuts: the jobs that are due.';

COMMENT ON INDEX public.fanouts_pkey IS 'FanOut: moving a job''s cursor.';

COMMENT ON INDEX public.hold_pkey IS 'Publish of ordered events, Claim, Changes, Held, PutHold, Resume. Keeps the table to its one row.';

CREATE INDEX idempotency_keys_created_at ON public.idempotency_keys USING btree (created_at);

COMMENT ON INDEX public.idempotency_keys_created_at IS 'ForgetKeys: the oldest keys.';

COMMENT ON INDEX public.idempotency_keys_pkey IS 'Publish: inserting a key and reading its owner. Events of one idempotency key. Find: the owners of a key in all accounts, for which the key comes first.';

CREATE INDEX inspections_endpoint ON public.inspections USING btree (endpoint, id);

COMMENT ON INDEX public.inspections_endpoint IS 'Inspections: those of an endpoint, newest first. PutInspection: those that are too many.';

COMMENT ON INDEX public.inspections_pkey IS 'ForgetInspections: the oldest. Inspections: one by id.';

COMMENT ON INDEX public.kept_events_pkey IS 'Claim and Events: one by id. DeleteOld: whether an event is kept already.';

COMMENT ON INDEX public.keyring_pkey IS 'Keyring and SwapKeyring. Keeps the table to its one row.';

COMMENT ON INDEX public.nodes_pkey IS 'Heartbeat, Reclaim, Forget: one node; the membership of all.';

CREATE INDEX notice_destinations_account ON public.notice_destinations USING btree (account, id) WHERE (account IS NOT NULL);

COMMENT ON INDEX public.notice_destinations_account IS 'Destinations of an account; PutDestination: how many it has; DeleteAccount.';

CREATE UNIQUE INDEX notice_destinations_address ON public.notice_destinations USING btree (COALESCE(account, '00000000-0000-0000-0000-000000000000'::uuid), channel, address);

COMMENT ON INDEX public.notice_destinations_address IS 'PutDestination: an address is there once.';

CREATE INDEX notice_destinations_due ON public.notice_destinations USING btree (channel, due_at) WHERE (refused_at IS NULL);

COMMENT ON INDEX public.notice_destinations_due IS 'ClaimDestinations.';

CREATE INDEX notice_destinations_operator ON public.notice_destinations USING btree (id) WHERE (account IS NULL);

COMMENT ON INDEX public.notice_destinations_operator IS 'Destinations of the operator; PutDestination: how many there are.';

COMMENT ON INDEX public.notice_destinations_pkey IS 'Destinations: one by id, and the list of all; ChangeDestination, SettleDestination.';

CREATE INDEX notices_account ON public.notices USING btree (account, id) WHERE (account IS NOT NULL);

COMMENT ON INDEX public.notices_account IS 'Notices by account.';

CREATE INDEX notices_kind ON public.notices USING btree (kind, id);

COMMENT ON INDEX public.notices_kind IS 'Notices by kind.';

CREATE INDEX notices_object ON public.notices USING btree (object, id);

COMMENT ON INDEX public.notices_object IS 'Notices by object.';

CREATE UNIQUE INDEX notices_once ON public.notices USING btree (kind, object, occurrence);

COMMENT ON INDEX public.notices_once IS 'PutNotices: one notice for each fact, whichever nodes saw it.';

COMMENT ON INDEX public.notices_pkey IS 'Notices, newest or oldest first. DeleteOld: the oldest.';

COMMENT ON INDEX public.ordering_keys_pkey IS 'Publish: the upsert that assigns sequences. Settle, Cancel, Expire, Discard, Replay: the lock of a key. Find: the accounts that have a key, for which the key comes first.';

CREATE UNIQUE INDEX paused_keys_delivery ON public.paused_keys USING btree (delivery);

COMMENT ON INDEX public.paused_keys_delivery IS 'Replay, Discard: what a dead letter pauses.';

COMMENT ON INDEX public.paused_keys_pkey IS 'Publish, Settle: whether a key is paused. OrderedKeys: the list.';

COMMENT ON INDEX public.portal_pkey IS 'Keeps the table to its one row.';

COMMENT ON INDEX public.probe_pkey IS 'ProbeWrite: the row.';

CREATE INDEX queue_due ON public.queue USING btree (endpoint, lane, due_at, id) WHERE (due_at < 'infinity'::timestamp with time zone);

COMMENT ON INDEX public.queue_due IS 'Claim: the longest due of an endpoint''s lane. Due: a skip scan of the lanes. Rows that are due at infinity are not in it.';

CREATE INDEX queue_event ON public.queue USING btree (event);

COMMENT ON INDEX public.queue_event IS 'Deliveries of an event.';

CREATE INDEX queue_order_key ON public.queue USING btree (endpoint, ordering_key, sequence) WHERE (ordering_key IS NOT NULL);

COMMENT ON INDEX public.queue_order_key IS 'The lowest row of an ordering key. CancelDeleted: the ordered rows. OrderedKeys: a skip scan of the keys.';

CREATE INDEX queue_ordered_expires_at ON public.queue USING btree (expires_at) WHERE (pauses IS NOT NULL);

COMMENT ON INDEX public.queue_ordered_expires_at IS 'Expire: the ordered rows that have expired. Its predicate is in that statement only: to the planner an index without rows is the cheapest for every statement that implies its predicate.';

CREATE INDEX queue_parked ON public.queue USING btree (endpoint) WHERE parked;

COMMENT ON INDEX public.queue_parked IS 'CancelDeleted: the parked rows of an endpoint, which queue_due does not have.';

COMMENT ON INDEX public.queue_pkey IS 'Settle, Release, Cancel: one delivery. Expire: those without an order. Deliveries: by age.';

CREATE INDEX queue_replay_job ON public.queue USING btree (replay_job, id) WHERE (replay_job IS NOT NULL);

COMMENT ON INDEX public.queue_replay_job IS 'Deliveries of a replay job. ReplayJobs and ReplaysPending: how many are pending. Other rows are not in it.';

CREATE INDEX queue_replays ON public.queue USING btree (event, endpoint, id) WHERE (replayed_from IS NOT NULL);

COMMENT ON INDEX public.queue_replays IS 'Deliveries with Last: the pending replays of an event. Other rows are not in it.';

COMMENT ON INDEX public.quota_use_pkey IS 'SpendQuotas: the row of an account.';

COMMENT ON INDEX public.quotas_pkey IS 'Quotas: those of one account. PutQuotas.';

CREATE UNIQUE INDEX quotas_version ON public.quotas USING btree (version);

COMMENT ON INDEX public.quotas_version IS 'Quotas: what changed after a version, in order.';

CREATE INDEX replay_jobs_account ON public.replay_jobs USING btree (account, id) WHERE (account IS NOT NULL);

COMMENT ON INDEX public.replay_jobs_account IS 'ReplayJobs of an account, newest first.';

COMMENT ON INDEX public.replay_jobs_pkey IS 'ReplayJobs: one, and the list, newest first. SetReplayJob, ReplayChunk.';

CREATE INDEX replay_jobs_running ON public.replay_jobs USING btree (id) WHERE (status = 'running'::text);

COMMENT ON INDEX public.replay_jobs_running IS 'ClaimReplayJobs: the jobs that run, oldest first. Ended ones are not in it.';

CREATE INDEX restored_records_account ON public.restored_records USING btree (account, id, number, kind);

COMMENT ON INDEX public.restored_records_account IS 'RestoredRecords of an account.';

CREATE INDEX restored_records_at ON public.restored_records USING btree (at);

COMMENT ON INDEX public.restored_records_at IS 'ForgetRestored: the oldest.';

CREATE INDEX restored_records_event ON public.restored_records USING btree (event, id, number, kind);

COMMENT ON INDEX public.restored_records_event IS 'RestoredRecords of an event.';

COMMENT ON INDEX public.restored_records_pkey IS 'RestoredRecords: all. PutRestored: one.';

COMMENT ON INDEX public.rollup_positions_pkey IS 'FoldRollups, RollUp, ForgetRollups, Rollups: both.';

CREATE INDEX rollups_at ON public.rollups USING btree (step, at, scope, type);

COMMENT ON INDEX public.rollups_at IS 'RollUp: what follows a position. ForgetRollups: the oldest of a step.';

CREATE INDEX rollups_dying ON public.rollups USING btree (scope, at DESC) WHERE ((dead > 0) AND (step = 0) AND (type = ''::text));

COMMENT ON INDEX public.rollups_dying IS 'HealthInputs: a skip scan of the scopes in which deliveries died within the last two days.';

COMMENT ON INDEX public.rollups_pkey IS 'Rollups, HealthInputs and EndpointStates: a range of a scope, type and step. FoldRollups: one, and a skip scan of the types of a scope.';

CREATE INDEX search_terms_account ON public.search_terms USING btree (account, term);

COMMENT ON INDEX public.search_terms_account IS 'Find: those of one account.';

CREATE INDEX search_terms_id ON public.search_terms USING btree (id);

COMMENT ON INDEX public.search_terms_id IS 'PutAccount, PutEndpoint: the terms that are replaced.';

COMMENT ON INDEX public.search_terms_pkey IS 'Find: the terms that begin with a text.';

CREATE INDEX sessions_account ON public.sessions USING btree (account, id) WHERE (account IS NOT NULL);

COMMENT ON INDEX public.sessions_account IS 'DeleteAccount, Sessions by account.';

COMMENT ON INDEX public.sessions_code_key IS 'RedeemCode.';

CREATE INDEX sessions_expires_at ON public.sessions USING btree (expires_at);

COMMENT ON INDEX public.sessions_expires_at IS 'DeleteOld: the sessions that have expired, the oldest first.';

COMMENT ON INDEX public.sessions_hash_key IS 'Sessions by hash: every request that is not answered from a cache.';

CREATE INDEX sessions_key ON public.sessions USING btree (key) WHERE (key IS NOT NULL);

COMMENT ON INDEX public.sessions_key IS 'RevokeKey: the sessions that a key issued.';

COMMENT ON INDEX public.sessions_pkey IS 'Sessions: the list, newest first; RevokeSession, TouchSession.';

COMMENT ON INDEX public.shards_pkey IS 'Heartbeat: all of them.';

COMMENT ON INDEX public.subscriptions_pkey IS 'Keeps the table to its one row.';

COMMENT ON INDEX public.tables_noted_pkey IS 'CheckTables: the row.';

CREATE TRIGGER audit_is_final BEFORE UPDATE ON public.audit FOR EACH ROW EXECUTE FUNCTION public.audit_is_final();

ALTER TABLE ONLY public.circuits
    ADD CONSTRAINT circuits_endpoint_fkey FOREIGN KEY (endpoint) REFERENCES public.endpoints(id);

ALTER TABLE ONLY public.endpoint_health
    ADD CONSTRAINT endpoint_health_endpoint_fkey FOREIGN KEY (endpoint) REFERENCES public.endpoints(id);

ALTER TABLE ONLY public.endpoint_secrets
    ADD CONSTRAINT endpoint_secrets_endpoint_fkey FOREIGN KEY (endpoint) REFERENCES public.endpoints(id);
