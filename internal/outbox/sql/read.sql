-- adopt gives rows the present transaction that seem to be of a future one: the database was restored
-- from a dump, and the ids of its transactions began anew. It returns how many, at most the given number, so
-- that a call takes no long time.
create or replace function postrider.adopt(most int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off as $fn$
declare
	n bigint;
begin
	update postrider.outbox o set tx = pg_current_xact_id() where o.number = any(array(
		select f.number from postrider.outbox f where f.tx >= pg_snapshot_xmax(pg_current_snapshot()) order by f.tx limit most));
	get diagnostics n = row_count;
	return n;
end
$fn$;

-- poll returns a page of the rows that the caller's statement sees and that the snapshot seen did not
-- see. Their transactions were open at that snapshot, or began later. If until is not null, poll returns
-- only rows that the snapshot until sees. after_number is 0 for the first page. Rows that were written by
-- hand may have numbers below 0.
--
-- Rows are found by arrays of their numbers, here and below. After a vacuum of the empty table the planner
-- takes a walk through a whole index for as cheap as a look-up, and a join can become one.
--
-- It is stable, so it has the snapshot of the statement. It never looks at rows that were to be seen
-- before: beside an old open transaction these are millions of dead ones. The floor is in front of the
-- rows of unknown transactions. It does not follow from the sequence, because a transaction that a
-- snapshot does not know can have begun before it. xid8cmp, the subquery with an offset and the
-- comparisons of rows leave one index for each part.
create or replace function postrider.poll(
	seen pg_snapshot, after_number bigint, until pg_snapshot, most_rows int, most_bytes bigint
) returns setof postrider.outbox
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set work_mem = '16MB' as $fn$
declare
	after_page constant bigint := coalesce(nullif(after_number, 0), -9223372036854775808);
	floor_number bigint := after_page;
begin
	if seen is not null and after_number = 0 then
		select coalesce(min(x.number) - 1, 9223372036854775807) into floor_number
		from (select o.number from postrider.outbox o where o.tx >= pg_snapshot_xmax(seen) offset 0) x;
	end if;
	return query
	with found as (
		(select o.number, octet_length(o.data) + coalesce(octet_length(o.previous::text), 0) as size
		from postrider.outbox o
		where o.number > floor_number
			and (seen is null or xid8cmp(o.tx, pg_snapshot_xmax(seen)) >= 0)
			and (until is null or pg_visible_in_snapshot(o.tx, until))
		order by o.number
		limit most_rows)
		union all
		(select r.number, r.size
		from pg_snapshot_xip(seen) as x(tx)
		cross join lateral (
			select o.number, octet_length(o.data) + coalesce(octet_length(o.previous::text), 0) as size
			from postrider.outbox o
			where (o.tx, o.number + 0) > (x.tx, after_page) and (o.tx, o.number + 0) <= (x.tx, 9223372036854775807)
			order by o.tx, o.number + 0
			limit most_rows
		) r
		where pg_visible_in_snapshot(x.tx, coalesce(until, pg_current_snapshot()))) -- it has ended
	), page as materialized (
		select p.number
		from (
			select f.number, sum(f.size) over (order by f.number rows unbounded preceding) - f.size as before
			from (select * from found order by number limit most_rows) f
		) p
		where p.before < most_bytes
	)
	select o.* from postrider.outbox o where o.number = any(array(select p.number from page p));
end
$fn$;

-- of_account returns a page of an account's rows that poll has returned: those that are to be seen in the
-- snapshot seen, and in the snapshot until up to the number last_number. It looks at the rows before
-- walk_end(from_number). Without that, beside millions of rows of others, or of dead ones, it would take too long.
create or replace function postrider.of_account(
	name text, from_number bigint, seen pg_snapshot, until pg_snapshot, last_number bigint, most_rows int, most_bytes bigint
) returns setof postrider.outbox
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set work_mem = '16MB' as $fn$
declare
	last_looked constant bigint := coalesce(postrider.walk_end(from_number) - 1, 9223372036854775807);
begin
	return query
	with page as materialized (
		select p.number
		from (
			select f.number, sum(f.size) over (order by f.number rows unbounded preceding) - f.size as before
			from (
				select o.number, octet_length(o.data) + coalesce(octet_length(o.previous::text), 0) as size
				from postrider.outbox o
				where o.number between from_number and last_looked
					and o.account = name
					and (coalesce(pg_visible_in_snapshot(o.tx, seen), false)
						or o.number <= last_number and coalesce(pg_visible_in_snapshot(o.tx, until), false))
				order by o.number
				limit most_rows
			) f
		) p
		where p.before < most_bytes
	)
	select o.* from postrider.outbox o where o.number = any(array(select p.number from page p));
end
$fn$;

-- walk_end returns the first number that of_account does not look at. It is null if there is none. Numbers
-- that were drawn are counted, because dead rows take time, too. Rows that were written by hand can have
-- any number, so outside of the drawn ones rows are counted.
create or replace function postrider.walk_end(from_number bigint) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $fn$
	select case
		when from_number between 1 and q.last_value - 20000 then from_number + 20000
		else (select x.number from postrider.outbox x where x.number >= from_number order by x.number offset 20000 limit 1)
	end
	from postrider.outbox_number q;
$fn$;

-- make_hour makes the partition of outbox_read for the hour of a time. It attaches the partition, because
-- create table … partition of waits for everyone who reads the table, such as a dump. Its bounds are
-- texts, and some styles of dates have names of time zones that can be read in two ways.
create or replace function postrider.make_hour(at timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO' as $fn$
declare
	hour timestamptz := date_trunc('hour', at);
	part text := 'outbox_read_' || to_char(hour, 'YYYYMMDDHH24');
begin
	if to_regclass('postrider.' || part) is not null then
		return;
	end if;
	execute format('create table postrider.%I (like postrider.outbox_read) with (autovacuum_enabled = off, toast.autovacuum_enabled = off)', part);
	execute format('alter table postrider.outbox_read attach partition postrider.%I for values from (%L) to (%L)',
		part, hour, hour + interval '1 hour');
end
$fn$;

-- move takes rows that were published out of the outbox, and notes the window up to which all are. It
-- changes nothing and returns false if the source had this cycle or a later one.
create or replace function postrider.move(
	source uuid, cycle bigint, reached text, at timestamptz, numbers bigint[], ids uuid[]
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $fn$
begin
	if exists (select from postrider.outbox_cycle c where c.source = move.source and c.cycle >= move.cycle) then
		return false;
	end if;
	insert into postrider.outbox_cycle values (move.source, move.cycle, move.reached) on conflict do nothing;
	if not found then
		return false;
	end if;
	perform postrider.make_hour(move.at);
	with gone as (
		delete from postrider.outbox o where o.number = any(numbers) and o.id = any(ids) returning o.*
	)
	insert into postrider.outbox_read select g.*, move.at, move.cycle from gone g;
	return true;
end
$fn$;

-- reject moves rows to outbox_rejected.
create or replace function postrider.reject(numbers bigint[], ids uuid[], codes text[], fields text[], messages text[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $fn$
declare
	n bigint;
begin
	with gone as (
		delete from postrider.outbox o where o.number = any(numbers) and o.id = any(ids) returning o.*
	)
	insert into postrider.outbox_rejected
	select g.*, clock_timestamp(), m.code, m.field, m.message
	from gone g
	join unnest(numbers, codes, fields, messages) as m(number, code, field, message) on m.number = g.number;
	get diagnostics n = row_count;
	return n;
end
$fn$;

-- put_back moves rows that were read into the outbox again. They keep their numbers, so the order of their
-- keys is kept. A number that is taken was written by hand; then the row gets a new one.
create or replace function postrider.put_back(numbers bigint[], ids uuid[], times timestamptz[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $fn$
declare
	n bigint;
begin
	with gone as (
		delete from postrider.outbox_read r
		using unnest(numbers, ids, times) as m(number, id, at)
		where r.read_at = m.at and r.number = m.number and r.id = m.id
		returning r.*
	)
	insert into postrider.outbox overriding system value
	select pg_current_xact_id(),
		case when exists (select from postrider.outbox o where o.number = g.number) then nextval('postrider.outbox_number') else g.number end,
		g.id, g.account, g.type, g.data, g.content_type, g.idempotency_key, g.ordering_key, g.api_version, g.max_attempts, g.subject,
		g.channels, g.metadata, g.internal, g.previous, g.changed_paths, g.endpoints, g.hops, g.traceparent, g.tracestate,
		g.occurred_at, g.published_at, g.producer
	from gone g;
	get diagnostics n = row_count;
	return n;
end
$fn$;

-- keep makes the partitions for the hour of now and the next two, and drops those that ended longer ago
-- than the interval. One that somebody reads, such as a dump, is dropped by a later call.
create or replace function postrider.keep(now timestamptz, keep interval) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '200ms' as $fn$
declare
	p record;
	n bigint;
begin
	for i in 0..2 loop
		perform postrider.make_hour(keep.now + make_interval(hours => i));
	end loop;
	delete from postrider.outbox_cycle c
	where c.cycle < (select max(m.cycle) from postrider.outbox_cycle m where m.source = c.source);
	for p in
		select x.oid, x.part, x.hour
		from (
			select c.oid, c.relname as part, make_timestamptz(substr(c.relname, 13, 4)::int, substr(c.relname, 17, 2)::int,
				substr(c.relname, 19, 2)::int, substr(c.relname, 21, 2)::int, 0, 0, 'UTC') as hour
			from pg_inherits i
			join pg_class c on c.oid = i.inhrelid
			where i.inhparent = 'postrider.outbox_read'::regclass
		) x
		where x.hour + interval '1 hour' <= keep.now - keep.keep
		order by x.hour
	loop
		begin
			execute format('lock table postrider.%I in access exclusive mode', p.part);
			-- Counting reads everything, so for a large partition the number of PostgreSQL's statistics is enough.
			n := case when pg_relation_size(p.oid) > 64 << 20 then pg_stat_get_live_tuples(p.oid) else 0 end;
			if n = 0 then
				execute format('select count(*) from postrider.%I', p.part) into n;
			end if;
			execute format('drop table postrider.%I', p.part);
			insert into postrider.outbox_dropped as d values (p.hour, n)
				on conflict (hour) do update set rows = d.rows + excluded.rows;
		exception when lock_not_available then
			return;
		end;
	end loop;
end
$fn$;

-- limit_data notes the largest data that the server accepts.
create or replace function postrider.limit_data(most int) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $fn$
	delete from postrider.outbox_limit l where l.max_data <> most;
	insert into postrider.outbox_limit select most where not exists (select from postrider.outbox_limit);
$fn$;

-- retry_rejected moves rejected rows into the outbox, as rows of the present transaction. A filter that is
-- null selects all. Rows without an account, a type or data stay.
create or replace function postrider.retry_rejected(
	only_ids uuid[], only_account text, only_code text, set_account text, set_type text
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	n bigint;
begin
	with again as (
		delete from postrider.outbox_rejected r
		where (only_ids is null or r.id = any(only_ids)) and (only_account is null or r.account = only_account)
			and (only_code is null or r.code = only_code)
			and coalesce(set_account, r.account) is not null and coalesce(set_type, r.type) is not null and r.data is not null
		returning r.*
	)
	insert into postrider.outbox overriding system value
	select pg_current_xact_id(), nextval('postrider.outbox_number'), a.id, coalesce(set_account, a.account), coalesce(set_type, a.type), a.data,
		a.content_type, a.idempotency_key, a.ordering_key, a.api_version, a.max_attempts, a.subject, a.channels, a.metadata, a.internal,
		a.previous, a.changed_paths, a.endpoints, a.hops, a.traceparent, a.tracestate, a.occurred_at, a.published_at, a.producer
	from (select * from again order by number) a;
	get diagnostics n = row_count;
	return n;
end
$fn$;

-- discard_rejected deletes rejected rows. A filter that is null selects all.
create or replace function postrider.discard_rejected(only_ids uuid[], only_account text, only_code text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	n bigint;
begin
	delete from postrider.outbox_rejected r
	where (only_ids is null or r.id = any(only_ids)) and (only_account is null or r.account = only_account)
		and (only_code is null or r.code = only_code);
	get diagnostics n = row_count;
	return n;
end
$fn$;

-- expunge deletes rows of the accounts, and returns how many. With an hour, it deletes the rows that were read in
-- it. Without one, it deletes at most 50,000 rows that wait and 50,000 that were rejected. The plan is made for the
-- given hour, so it opens one partition.
create or replace function postrider.expunge(hour timestamptz, variadic names text[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan as $fn$
declare
	n bigint;
	hour_end constant timestamptz := hour + interval '1 hour';
begin
	if hour is not null then
		delete from postrider.outbox_read r where r.read_at >= hour and r.read_at < hour_end and r.account = any(names);
		get diagnostics n = row_count;
		return n;
	end if;
	with waiting as (
		delete from postrider.outbox o
		where o.ctid = any(array(select x.ctid from postrider.outbox x where x.account = any(names) limit 50000))
		returning 1
	), rejected as (
		delete from postrider.outbox_rejected r
		where r.ctid = any(array(select x.ctid from postrider.outbox_rejected x where x.account = any(names) limit 50000))
		returning 1
	)
	select (select count(*) from waiting) + (select count(*) from rejected) into n;
	return n;
end
$fn$;

-- stats returns numbers for people. waiting is exact while the table is small. oldest is null if nothing
-- waits, and while so many dead rows are in front that it would take long to find.
create or replace function postrider.stats(
	out waiting bigint, out oldest timestamptz, out open_since timestamptz, out rejected bigint, out async_replicas int
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_bitmapscan = off set jit = off as $fn$
declare
	own constant oid := 'postrider.outbox'::regclass;
begin
	if pg_relation_size(own) < 16 << 20 then
		select count(*) into waiting from postrider.outbox;
	else
		waiting := greatest(pg_stat_get_live_tuples(own), 0);
	end if;
	if pg_stat_get_dead_tuples(own) < 100000 then
		select o.published_at into oldest from postrider.outbox o order by o.number limit 1;
	end if;
	select min(x.since) into open_since
	from (
		select a.xact_start as since from pg_stat_activity a
		where a.datname = current_database() and a.pid <> pg_backend_pid() and (a.backend_xid is not null or a.backend_xmin is not null)
			and a.backend_type = 'client backend'
		union all
		select p.prepared from pg_prepared_xacts p where p.database = current_database()
	) x;
	select count(*) into rejected from (select from postrider.outbox_rejected limit 10001) r;
	select count(*) into async_replicas
	from pg_stat_replication r
	where r.sync_state = 'async' and r.state <> 'backup'
		and not exists (select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical');
end
$fn$;
