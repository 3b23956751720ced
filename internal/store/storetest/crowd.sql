-- See Crowd. The numbers of the kinds of ids are 1 for accounts, 2 for endpoints, 3 for events, 4 for pending,
-- 5 for ended and 6 for dead deliveries, and 7 for everything else.

insert into accounts (id, uid, name, created_at, keep_events)
select case when i <= 2 then case i when 1 then literal(11) else literal(12) end else id(1, i) end, 'a' || i, '', now(), case when i % 500 = 0 then 1 else 0 end
from rows(2000);

insert into api_keys (id, name, hash, scopes, account, created_at)
select case when i = 1 then literal(11) else id(7, i) end, '', hash(i + 100), texts(admin), {account}, now() from rows(2000);

insert into sessions (id, kind, name, subject, key, account, scopes, locale, embedded, code, code_expires_at, hash, created_at, expires_at)
select id(7, i), case when i % 100 = 0 then 'operator' else 'portal' end, '', '', id(7, i % 100), {account}, texts(admin), '', false, hash(i + 100), now(),
	hash(-i), now(), now() + i * interval '1 microsecond'
from rows(3000);

insert into audit (id, action, outcome, key, session, name, account, object, object_id, request, details)
select id(7, i), case when i % 2000 = 7 then 'a' else 'b' end, 'ok', case when i <= 20 then literal(12) else literal(11) end,
	case when i <= 20 then literal(12) else literal(11) end, '', {account}, '', case when i % 1000 = 9 then 'o' else 'p' end, '', '{}'
from rows(10000);

insert into notices (id, account, kind, object, occurrence, details)
select id(7, i), {account}, case when i % 1000 = 7 then 'endpoint.failing' else 'b' end, case when i % 1000 = 9 then 'o' else 'p' end, i || '', '{}'
from rows(10000);

insert into notice_destinations (id, account, channel, address, language, unsubscribed, confirmed_at, told_until, ask, failures, last_error, due_at)
select id(7, i), case when i % 100 > 0 then {account} end, case when i % 10 = 0 then 'slack' else 'email' end, 'a' || i, 'en', texts(x), now(), id(7, 10000), '', 0, '', now()
from rows(2000);

insert into endpoints (id, account, kind, url, description, event_types, status, status_reason, status_since, policy, revision, version, created_at, updated_at)
select case when i <= 3 then case i when 1 then literal(11) when 2 then literal(12) else literal(13) end else id(2, i) end, {account}, 'http',
	'https://acme.example', '', texts(*), case i % 1000 when 0 then 'deleted' when 7 then 'paused' else 'enabled' end, '', now(), '{}', 1, i + 1000, now(), now()
from rows(5000);

insert into endpoint_secrets (id, endpoint, encrypted, public, created_at)
select id(7, i), id(2, i), bytes(78), case when i % 10 = 0 then 'whpk_' || i end, now() from rows(2000) where i > 3;

insert into circuits (endpoint, status, reason, cooldown, failing_since, failures, last_outcome, generation, changed_at)
select id(2, i), case when i % 500 = 8 then 'open' else 'closed' end, '', 0, case when i % 500 = 8 then now() end, 1, 'rejected', 1, now()
from rows(5000) where i > 3;

insert into endpoint_health (endpoint, number, account, status, reason, warnings, since, last)
select case when i <= 300 then literal(11) else id(2, i) end, i, {account}, case when i % 500 = 9 then 'warned' else 'healthy' end, '', 1, now(), i >= 300
from rows(5000);

insert into past_subscriptions (endpoint, since, until, selects)
select case when i <= 3000 then literal(11) else id(2, i) end, now(), now() + i * interval '1 microsecond', '{}' from rows(5000) where i > 3;

insert into inspections (id, endpoint, delivery, event, type, attempt, document, body_bytes)
select id(7, i), {endpoint}, id(5, i), id(3, i), '', 1, '{}', 0 from rows(5000);

insert into events (id, account, type, data, api_version, ordering_key, hops, sequence, created_at)
select id(3, i), {account}, {type}, bytes(78), '', case when i % 1000 = 3 then 'o' else '' end, 0, case when i % 1000 = 3 then i else 0 end, now()
from rows(40000);

insert into ordering_keys (account, ordering_key, last) select id(1, i), 'o' || i % 100, 1 from rows(2000);

insert into idempotency_keys (account, key, event, hash, created_at) select {account}, 'k' || i, id(3, i), hash(i + 100), now() from rows(5000);

insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, step, losses, expires_at)
select id(4, i), id(3, i), {endpoint}, {account}, {type}, i % 3, now() + i * interval '1 microsecond', 0, 0, 0, now() + 900000000 * interval '1 microsecond'
from rows(25000);

insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, step, losses, expires_at, ordering_key, sequence, pauses)
select id(4, i + 25000), id(3, i), case when i % 2 = 0 then literal(11) else id(2, i % 200) end, literal(11), {type}, 0, now(), 0, 0, 0,
	now() + 900000000 * interval '1 microsecond', 'o' || i % 100, i, false
from rows(2000);

insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error, retry_after, started_at,
	duration, stale, status_after, replay_job)
select id(5, i), case when i % 1000 in (4, 5) then 0 else 1 end, id(3, i), {endpoint}, {account}, {type},
	case when i % 1000 in (4, 5) then 'none' when i % 10 = 9 then 'rejected' else 'accepted' end, 200, '', 0, now(), 0, false,
	case when i % 1000 = 4 then 'skipped' when i % 1000 = 5 then 'cancelled' when i % 10 = 9 then 'pending' else 'delivered' end,
	case when i % 100 = 1 then literal(11) end
from rows(40000);

insert into attempt_bodies (delivery, number, response_body) select id(5, i), 1, bytes(78) from rows(2000);

insert into dead_letters (delivery, event, endpoint, account, type, reason, attempts, last_status_code, last_error, died_at, resolved_at, resolution)
select id(6, i), id(3, i), {endpoint}, {account}, {type}, case when i % 5000 = 8 then 'gone' else 'exhausted' end, 10, 500 + i % 3, '', now(),
	case when i > 10000 then now() end, case when i > 10000 then 'discarded' end
from rows(20000);

insert into replay_jobs (id, account, action, filter, per_second, made_by, note, expected, expected_exact, status, error, cursor, held, handled,
	bytes_gone, replay_pending, endpoint_deleted, resolved, due_at, created_at, ended_at)
select id(7, i), {account}, 'replay', '{}', 1, '', '', 1, true, case when i % 400 = 7 then 'running' else 'done' end, '', id(6, i), '', 0, 0, 0, 0, 0, now(), now(),
	case when i % 400 <> 7 then now() end
from rows(2000);

insert into expunges (id, account, made_by, created_at, ended_at)
select id(7, i), {account}, '', now(), case when i % 400 <> 7 then now() end from rows(2000);

insert into restored_records (id, number, kind, account, event, endpoint, type, record, at)
select id(5, i), 1, 'attempts', {account}, id(3, i), {endpoint}, '', bytes(78), now() from rows(2000);

insert into what_ifs (account, endpoint, document, due_at, changed_at)
select id(1, i), id(2, i), '{}', case when i % 400 = 7 then now() end, now() from rows(2000);

insert into quotas (account, events_per_second, burst, bytes_per_day, endpoints, backlog, version)
select id(1, i), 1, 1, 1, 1, case when i % 2 = 0 then 1 else 0 end, i + 1000 from rows(2000);

insert into archive_keys (account, encrypted) select id(1, i), bytes(78) from rows(2000);

insert into outbox_rows (id, event, recorded_at) select id(8, i), id(3, i), now() from rows(5000);

insert into rollups (scope, type, step, at, counts, delivered, dead)
select case when i <= 20 then literal(12) else literal(11) end, case when i % 2 = 0 then '' else {type} end, 0, now() - (i * 600) * interval '1 microsecond' * 100000, bytes({counts}), 1,
	case when i % 100 = 0 then 1 else 0 end
from rows(5000);

insert into search_terms (term, id, account) select 'e' || i, id(2, i), {account} from rows(5000);
