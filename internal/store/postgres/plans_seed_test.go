package postgres

// seedSQL creates two partitions of each table, which is enough to see that the others are
// pruned, and enough rows for an index to pay off. On a slow machine autovacuum could run between
// the inserts and the plans. After it, rows are cheaper to read from an index alone, and the
// plans would differ.
const seedSQL = `
do $$
declare
    child regclass;
begin
    for child in
        select c.oid::regclass from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
    loop
        execute 'alter table ' || child || ' set (autovacuum_enabled = off)';
    end loop;
end $$;

do $$
declare
    child regclass;
begin
    for child in
        select i.inhrelid::regclass
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where c.relkind = 'r' and c.relname !~ to_char(now() at time zone 'UTC', 'YYYYMMDD$')
            and c.relname !~ to_char(now() at time zone 'UTC' + interval '1 day', 'YYYYMMDD$')
    loop
        execute 'drop table ' || child;
    end loop;
end $$;

create function id(i int, kind text) returns uuid language sql immutable as $$
    select (lpad(to_hex(floor(extract(epoch from now()) * 1000)::bigint), 12, '0') || '7' || substr(md5(kind || i), 1, 19))::uuid
$$;

insert into accounts (id, uid, name, created_at, deleted_at)
select id(i, 'account'), 'a' || i, '', now(), case when i % 40 = 0 then now() end from generate_series(0, 2000) i;

insert into api_keys (id, name, hash, scopes, account, created_at)
select id(i, 'key'), '', sha256(i::text::bytea), '{admin}', id(i % 500, 'account'), now() from generate_series(1, 2000) i;

insert into sessions (id, kind, name, subject, key, account, scopes, locale, embedded, code, code_expires_at, hash, created_at, expires_at)
select id(i, 'session'), 'portal', '', '', id(i % 100, 'key'), id(i % 500, 'account'), '{}', '', false, sha256(i::text::bytea), now(),
    sha256(('t' || i)::bytea), now(), now() + i * interval '1 minute'
from generate_series(1, 3000) i;

insert into event_types (name, description, example, created_at) select 'type-' || i, '', '', now() from generate_series(1, 2000) i;

insert into notice_destinations (id, account, channel, address, language, kinds, unsubscribed, confirmed_at, told_until, ask, failures, last_error, due_at)
select id(i, 'destination'), case when i % 100 > 0 then id(i % 500, 'account') end, case when i % 10 = 0 then 'slack' else 'email' end, 'a' || i, 'en', null, '{}',
    now(), id(10, 'notice'), '', 0, '', now()
from generate_series(1, 5000) i;

insert into audit (id, action, outcome, key, session, name, account, object, object_id, request, details)
select id(i, 'audit'), 'action-' || i % 40, 'ok', id(i % 100, 'key'), id(i % 500, 'session'), '', id(i % 500, 'account'), 'endpoint',
    'ep_' || i % 1000, '', '{}'
from generate_series(1, 20000) i;

insert into notices (id, account, kind, object, occurrence, details)
select id(i, 'notice'), id(i % 500, 'account'), 'kind-' || i % 10, 'ep_' || i % 1000, i, '{}'
from generate_series(1, 20000) i;

insert into endpoints (id, account, kind, url, description, event_types, status, status_reason, status_since, policy, revision, version, created_at, updated_at)
select id(i, 'endpoint'), id(i % 20, 'account'), 'http', 'https://acme.example', '', '{*}',
    case i % 50 when 0 then 'deleted' when 1 then 'paused' else 'enabled' end, '', now(), '{}', 1, i, now(), now()
from generate_series(1, 20000) i;

insert into inspections (id, endpoint, delivery, event, type, attempt, document, body_bytes)
select id(i, 'inspection'), id(i % 500, 'endpoint'), id(i, 'delivery'), id(i, 'event'), '', 1, '{}', 0
from generate_series(1, 20000) i;

insert into endpoint_secrets (id, endpoint, encrypted, public, created_at)
select id(i, 'secret'), id(i % 500 + 1, 'endpoint'), 'x', case when i % 10 = 0 then 'whpk_' || i end, now()
from generate_series(1, 5000) i;

insert into events (id, account, type, data, api_version, ordering_key, hops, sequence, created_at)
select id(i, 'event'), id(i % 20, 'account'), 'order.created', repeat('x', 200)::bytea, '', '', 0, 0, now()
from generate_series(1, 20000) i;

insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, step, losses, expires_at)
select id(i, 'queue'), case when i % 10 = 0 then id(i, 'event') end, id(i % 500, 'endpoint'), id(i % 20, 'account'), 'order.created', i % 3,
    now() + i % 100 * interval '1 second', 0, 0, 0, now() + interval '7 days'
from generate_series(1, 10000) i;

insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, step, losses, expires_at, ordering_key, sequence, pauses)
select id(i, 'ordered'), case when i % 10 = 0 then id(i, 'event') end, id(i % 500, 'endpoint'), id(i % 20, 'account'), 'order.created', 0,
    'infinity', 0, 0, 0, now() + interval '7 days', i % 1000, i, false
from generate_series(1, 5000) i;

insert into circuits (endpoint, status, reason, opened_at, probe_at, cooldown, failing_since, failures, last_outcome, generation, changed_at)
select id(i, 'endpoint'), case when i % 20 = 0 then 'open' else 'closed' end, '', now(), now(), 0, case when i % 20 = 0 then now() end,
    1, 'rejected', 1, now()
from generate_series(1, 10000) i;

insert into endpoint_health (endpoint, number, account, status, reason, warnings, since, last)
select id(i, 'endpoint'), n, id(i % 20, 'account'), 'warned', '', 1, now(), n = 10
from generate_series(1, 200) i, generate_series(1, 10) n;

insert into past_subscriptions (endpoint, since, until, selects)
select id(i, 'endpoint'), now(), now() + n * interval '1 hour', '{}' from generate_series(1, 2000) i, generate_series(1, 10) n;

insert into quotas (account, events_per_second, burst, bytes_per_day, endpoints, backlog, version)
select id(i, 'account'), 1, 1, 1, 1, 1, i from generate_series(1, 2000) i;

insert into quota_use (account, rate, burst, events, at, asked, day, bytes)
select id(i, 'account'), 1, 1, 1, now(), 1, now(), 1 from generate_series(1, 2000) i;

insert into replay_jobs (id, account, action, filter, per_second, made_by, note, expected, expected_exact, status, error, cursor, held, due_at,
    created_at, ended_at)
select id(i, 'job'), id(i % 500, 'account'), 'replay', '{}', 1, '', '', 1, true, case when i % 100 = 0 then 'running' else 'done' end, '',
    id(i, 'dead'), '', now(), now(), case when i % 100 > 0 then now() end
from generate_series(1, 3000) i;

insert into expunges (id, account, made_by, created_at, ended_at)
select id(i, 'expunge'), id(i, 'account'), '', now(), case when i % 100 > 0 then now() end from generate_series(1, 3000) i;

insert into archive_parts (kind, day, number, object, row_count, deleted, bytes, sha256, after, last, made_at)
select k, date_trunc('day', now()) - i * interval '1 day', n, '', 1, 1, 1, sha256('x'), id(i, 'event'), id(i, 'event'), now()
from unnest('{events,attempts,bodies}'::text[]) k, generate_series(1, 400) i, generate_series(1, 4) n;

insert into paused_keys (endpoint, ordering_key, account, delivery, sequence, since)
select id(i, 'endpoint'), i, id(i % 20, 'account'), id(i, 'dead'), i, now()
from generate_series(1, 400) i;

insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error, retry_after, started_at,
    duration, stale, status_after)
select id(i, 'delivery'), 1, case when i % 10 = 0 then id(i, 'event') end, id(i % 500, 'endpoint'), id(i % 20, 'account'), 'order.created',
    'accepted', 200, '', 0, now(), 1000, false, 'delivered'
from generate_series(1, 20000) i;

insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error, retry_after, started_at,
    duration, stale, status_after)
select id(i, 'skipped'), 0, case when i % 10 = 0 then id(i, 'event') end, id(i % 500, 'endpoint'), id(i % 20, 'account'), 'order.created',
    'none', 0, '', 0, now(), 0, false, 'skipped'
from generate_series(1, 2000) i;

insert into attempt_bodies (delivery, number, response_body) select id(i, 'delivery'), 1, 'x' from generate_series(1, 5000) i;

insert into dead_letters (delivery, event, endpoint, account, type, reason, attempts, last_status_code, last_error, died_at)
select id(i, 'dead'), id(i, 'event'), id(i % 500, 'endpoint'), id(i % 20, 'account'), 'order.created',
    case when i % 3 = 0 then 'gone' else 'exhausted' end, 10, 500, '', now()
from generate_series(1, 5000) i;

insert into archive_keys (account, encrypted) select id(i, 'account'), 'x' from generate_series(1, 2000) i;

insert into restored_records (id, number, kind, account, event, endpoint, type, record, at)
select id(i, 'delivery'), 1, 'attempts', id(i % 20, 'account'), id(i, 'event'), id(i % 500, 'endpoint'), '', '{}', now()
from generate_series(1, 5000) i;

insert into what_ifs (account, endpoint, document, due_at, changed_at)
select id(i, 'account'), id(i, 'endpoint'), '{}', case when i % 400 = 7 then now() end, now() from generate_series(1, 2000) i;

insert into rollup_deltas (at, counted) select now(), 'x' from generate_series(1, 100) i;

insert into rollups (scope, type, step, at, counts, delivered, dead)
select id(i % 500, 'endpoint'), '', 0, now() - i * interval '1 minute', 'x', 1, (i % 100 = 0)::int from generate_series(1, 20000) i;

insert into idempotency_keys (account, key, event, hash, created_at)
select id(i % 20, 'account'), i, id(i, 'event'), sha256('x'), now() from generate_series(1, 10000) i;

insert into outbox_rows (id, event, recorded_at) select id(i, 'row'), id(i, 'event'), now() from generate_series(1, 10000) i;

insert into event_terms (term, id) select i % 1000, id(i, 'event') from generate_series(1, 20000) i;

insert into search_terms (term, id, account) select 'a' || i, id(i, 'account'), id(i, 'account') from generate_series(0, 2000) i;

insert into search_terms (term, id, account)
select 'e' || i, id(i, 'endpoint'), id(i % 20, 'account') from generate_series(1, 20000) i;

insert into ordering_keys (account, ordering_key, last) select id(i % 20, 'account'), i, 1 from generate_series(1, 5000) i;

analyze;`
