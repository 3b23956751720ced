-- list_faults returns the faults of a list of channels, or of paths. A path is $ and names or indexes.
create or replace function postrider.list_faults(list text, texts text[], most int) returns postrider.fault[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	f postrider.fault[] := '{}';
	t text;
	i bigint;
	place text;
begin
	if cardinality(texts) > most then
		return array[(list, 'wrong_count', format('must have at most %s elements', most))::postrider.fault];
	end if;
	for t, i in select x.t, x.i - 1 from unnest(texts) with ordinality as x(t, i) loop
		place := format('%s[%s]', list, i);
		if list = 'changed_paths' then
			if octet_length(t) > 256 or t ~ E'[\\x01-\\x1f\\x7f-\\x9f]'
				or t !~ E'^\\$(\\.[^]["''*=.\\x01-\\x20\\x7f]+|\\[(0|[1-9][0-9]{0,9})\\])*$' then
				f := f || (place, 'malformed', 'must be a path such as $.order.number or $.items[0].id, of at most 256 bytes')::postrider.fault;
			end if;
		else
			if t = '' then
				f := f || (place, 'required', 'must not be empty')::postrider.fault;
			elsif t ~ E'[\\x01-\\x1f\\x7f-\\x9f]' then
				f := f || (place, 'malformed', 'must be UTF-8 without control characters')::postrider.fault;
			end if;
			if octet_length(t) > 128 then
				f := f || (place, 'too_long', 'is too long')::postrider.fault;
			end if;
		end if;
		if array_position(texts, t) < i + array_lower(texts, 1) then
			f := f || (place, 'repeated', 'must not occur twice')::postrider.fault;
		end if;
	end loop;
	return f;
end
$fn$;

-- texts_faults returns the faults of metadata or internal. If only_form is true, these are the faults for
-- which the API does not look further: it is no object of texts.
create or replace function postrider.texts_faults(object text, texts json, only_form boolean) returns postrider.fault[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	f postrider.fault[] := '{}';
	k text;
	v text;
	kind text;
	keys int := 0;
	size bigint;
begin
	if only_form then
		if json_typeof(texts) <> 'object' then
			return array[(object, 'malformed', case json_typeof(texts) when 'null' then 'must not be null' else 'must be an object' end)::postrider.fault];
		end if;
		for k, v, kind in select x.key, x.value #>> '{}', json_typeof(x.value) from json_each(texts) x loop
			if kind <> 'string' then
				f := f || (object || '.' || k, 'malformed', case kind when 'null' then 'must not be null' else 'must be a string' end)::postrider.fault;
			elsif v ~ E'[\\x01-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]' then
				f := f || (object || '.' || k, 'malformed', 'must not contain control characters')::postrider.fault;
			end if;
		end loop;
		return f;
	end if;
	select count(*), sum(octet_length(x.key) + octet_length(x.value)) into keys, size from json_each_text(texts) x;
	if keys > 20 then
		f := f || (object, 'wrong_count', 'must have at most 20 keys')::postrider.fault;
	end if;
	if size > 2048 then
		f := f || (object, 'too_long', 'must have at most 2048 bytes of keys and values')::postrider.fault;
	end if;
	for k, v in select x.key, x.value from json_each_text(texts) x order by x.key collate "C" limit 20 loop
		if k = '' or octet_length(k) > 128 or k ~ E'[\\x01-\\x1f\\x7f-\\x9f]' then
			f := f || (object, 'malformed', format('must have keys of 1 to 128 bytes of UTF-8 without control characters, unlike %s', to_json(left(k, 128))))::postrider.fault;
		elsif v ~ E'[\\x01-\\x1f\\x7f-\\x9f]' then
			f := f || (object || '.' || k, 'malformed', 'must be UTF-8 without control characters')::postrider.fault;
		end if;
	end loop;
	return f;
exception when untranslatable_character or invalid_text_representation then -- such as \u0000
	return case when only_form then array[(object, 'malformed', 'must be JSON by RFC 7493, without control characters')::postrider.fault] else '{}' end;
end
$fn$;

-- form_faults returns the faults that the API's decoder finds. If there are any, the API looks no further.
create or replace function postrider.form_faults(e postrider.outbox) returns postrider.fault[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	f postrider.fault[] := '{}';
begin
	if e.account is null or e.type is null or e.data is null or '' in (e.account, e.idempotency_key, e.subject, e.content_type)
		or concat(e.account, e.type, e.idempotency_key, e.ordering_key, e.api_version, e.subject, e.content_type)
			~ E'[\\x01-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]' then
		f := array(
			select (x.field, case when x.value = '' or x.value is null then 'required' else 'malformed' end, case
				when x.value is null then 'is required'
				when x.value = '' then 'must not be empty'
				else 'must not contain control characters'
			end)::postrider.fault
			from (values
				('account', e.account, true, true), ('type', e.type, true, false), ('data', case when e.data is not null then '{}' end, true, false),
				('idempotency_key', e.idempotency_key, false, true), ('ordering_key', e.ordering_key, false, false),
				('api_version', e.api_version, false, false), ('subject', e.subject, false, true), ('content_type', e.content_type, false, true)
			) as x(field, value, required, not_empty)
			where x.value is null and x.required or x.value = '' and x.not_empty or x.value ~ E'[\\x01-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]');
	end if;
	if e.channels is not null or e.changed_paths is not null or e.endpoints is not null then
		f := f || array(
			select (format('%s[%s]', x.list, u.i - 1), 'malformed', case
				when array_ndims(x.texts) > 1 then 'must be a string'
				when u.t is null then 'must not be null'
				else 'must not contain control characters'
			end)::postrider.fault
			from (values ('channels', e.channels), ('changed_paths', e.changed_paths), ('endpoints', e.endpoints)) as x(list, texts)
			cross join lateral unnest(x.texts) with ordinality as u(t, i)
			where u.t is null or array_ndims(x.texts) > 1 or u.t ~ E'[\\x01-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]');
	end if;
	if e.metadata is not null then
		f := f || postrider.texts_faults('metadata', e.metadata, true);
	end if;
	if e.internal is not null then
		f := f || postrider.texts_faults('internal', e.internal, true);
	end if;
	return f;
end
$fn$;

-- faults returns what Event.Check of the API finds. A Go test compares the two.
create or replace function postrider.faults(e postrider.outbox) returns postrider.fault[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	f postrider.fault[] := '{}';
	most int := 262144; -- of every server that is not set to accept less
	size bigint;
begin
	if starts_with(e.type, 'postrider.') then
		f := f || ('type', 'not_allowed', 'must not begin with postrider., which is for the server''s own events')::postrider.fault;
	elsif octet_length(e.type) > 128 or e.type !~ E'^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$' then
		f := f || ('type', 'malformed', 'must be segments of letters, digits, _ and - joined by dots, at most 128 bytes')::postrider.fault;
	end if;
	if octet_length(e.idempotency_key) > 256 then
		f := f || ('idempotency_key', 'too_long', 'is too long')::postrider.fault;
	end if;
	if octet_length(e.ordering_key) > 256 then
		f := f || ('ordering_key', 'too_long', 'is too long')::postrider.fault;
	end if;
	if octet_length(e.api_version) > 64 then
		f := f || ('api_version', 'too_long', 'is too long')::postrider.fault;
	end if;
	if e.max_attempts not between 1 and 100 then
		f := f || ('max_attempts', 'out_of_range', 'must be 1 to 100')::postrider.fault;
	end if;
	if e.subject ~ E'[\\x01-\\x1f\\x7f-\\x9f]' then
		f := f || ('subject', 'malformed', 'must be UTF-8 without control characters')::postrider.fault;
	end if;
	if octet_length(e.subject) > 256 then
		f := f || ('subject', 'too_long', 'is too long')::postrider.fault;
	end if;
	if e.channels is not null then
		f := f || postrider.list_faults('channels', e.channels, 10);
	end if;
	if e.metadata is not null then
		f := f || postrider.texts_faults('metadata', e.metadata, false);
	end if;
	if e.internal is not null then
		f := f || postrider.texts_faults('internal', e.internal, false);
	end if;
	if e.previous is not null and json_typeof(e.previous) <> 'object' then
		f := f || ('previous', 'malformed', 'must be an object')::postrider.fault;
	end if;
	if e.changed_paths is not null then
		f := f || postrider.list_faults('changed_paths', e.changed_paths, 100);
		if e.previous is not null then
			f := f || ('changed_paths', 'contradictory', 'must be left out with previous')::postrider.fault;
		end if;
	end if;
	if e.content_type is not null then
		f := f || postrider.content_faults(e);
	end if;
	size := octet_length(e.data) + coalesce(octet_length(e.previous::text), 0);
	if size > most then
		select greatest(max(l.max_data), most) into most from postrider.outbox_limit l;
		if octet_length(e.data) > most then
			f := f || ('data', 'too_long', format('must be at most %s bytes', most))::postrider.fault;
		elsif size > most then
			f := f || ('previous', 'too_long', format('must be, with data and what else the event says of itself, at most %s bytes', most))::postrider.fault;
		end if;
	end if;
	if cardinality(e.endpoints) not between 1 and 100 then
		f := f || ('endpoints', 'wrong_count', 'must have 1 to 100 endpoints')::postrider.fault;
	end if;
	if e.hops >= 8 then
		f := f || ('hops', 'loop_detected', 'the event is in a loop of webhook senders')::postrider.fault;
	elsif e.hops < 0 then
		f := f || ('hops', 'malformed', 'must not be negative')::postrider.fault;
	end if;
	if e.occurred_at > clock_timestamp() + interval '10 minutes' or e.occurred_at < timestamptz '1970-01-01 00:00:00+00' then
		f := f || ('occurred_at', 'out_of_range', 'must be after 1970 and at most 10 minutes ahead')::postrider.fault;
	end if;
	return f;
end
$fn$;

-- content_faults returns the faults of data that is not JSON. The server checks the parameters of the
-- media type.
create or replace function postrider.content_faults(e postrider.outbox) returns postrider.fault[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	f postrider.fault[] := '{}';
begin
	if e.previous is not null then
		f := f || ('previous', 'contradictory', 'must be left out with content_type')::postrider.fault;
	end if;
	if e.content_type !~ '^[!#$%&''*+.^_`|~0-9A-Za-z-]+/[!#$%&''*+.^_`|~0-9A-Za-z-]+ *(;.*)?$'
		or e.content_type ~ E'[^\\x20-\\x7e]|^ | $' then
		f := f || ('content_type', 'malformed', 'must be a media type such as text/csv')::postrider.fault;
	end if;
	if lower(split_part(e.content_type, ';', 1)) ~ '^application/json *$' then
		f := f || ('content_type', 'contradictory', 'must be left out for JSON')::postrider.fault;
	end if;
	if octet_length(e.content_type) > 128 then
		f := f || ('content_type', 'too_long', 'is too long')::postrider.fault;
	end if;
	if octet_length(e.data) = 0 then
		f := f || ('data', 'required', 'must not be empty')::postrider.fault;
	end if;
	return f;
end
$fn$;

-- row_id returns the id of a row as people see it: obx_ and base32.
create or replace function postrider.row_id(id uuid) returns text
language plpgsql immutable strict parallel safe security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	b bytea := uuid_send(id);
	d constant bytea := '0123456789abcdefghjkmnpqrstvwxyz';
	said bytea := 'obx_01234567890123456789012345';
	v bigint;
	at int := 6;
begin
	said := set_byte(set_byte(said, 4, get_byte(d, get_byte(b, 0) >> 5)), 5, get_byte(d, get_byte(b, 0) & 31));
	for k in 0..2 loop -- five bytes are eight digits
		v := ('x' || encode(substr(b, 2 + 5 * k, 5), 'hex'))::bit(40)::bigint;
		said := set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(said,
			at, get_byte(d, (v >> 35)::int)), at + 1, get_byte(d, ((v >> 30) & 31)::int)),
			at + 2, get_byte(d, ((v >> 25) & 31)::int)), at + 3, get_byte(d, ((v >> 20) & 31)::int)),
			at + 4, get_byte(d, ((v >> 15) & 31)::int)), at + 5, get_byte(d, ((v >> 10) & 31)::int)),
			at + 6, get_byte(d, ((v >> 5) & 31)::int)), at + 7, get_byte(d, (v & 31)::int));
		at := at + 8;
	end loop;
	return convert_from(said, 'SQL_ASCII');
end
$fn$;

-- check_producer refuses what the table producers does not allow the role of the session.
create or replace function postrider.check_producer(for_account text, of_type text) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
begin
	if not exists (
		select from postrider.producers p
		where p.role = session_user and (p.accounts is null or for_account = any(p.accounts))
			and (p.types is null or exists (
				select from unnest(p.types) as t(pattern)
				where of_type = t.pattern or t.pattern = '*' or right(t.pattern, 2) = '.*' and starts_with(of_type, left(t.pattern, -1))))
	) then
		raise exception using errcode = 'insufficient_privilege',
			message = format('role %s may not publish events of type %s for account %s: table postrider.producers does not allow it',
				session_user, of_type, for_account),
			hint = case when exists (select from postrider.producers p where p.role = session_user)
				then 'The row of the role has other accounts or types. Each id and each uid of an account is compared as it is written.'
				else format('A superuser allows it: insert into postrider.producers (role, accounts, types) values (%L, %L, %L); null stands for all.',
					session_user, array[for_account], array[of_type])
			end;
	end if;
end
$fn$;

-- add stores a row. With an ordering key it first waits until no other transaction has the key, and then
-- draws the number, so the numbers of a key rise in the order of commits.
create or replace function postrider.add(e postrider.outbox, on_error text, "order" text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	f postrider.fault[];
	said text;
begin
	if on_error is null or on_error not in ('raise', 'reject') then
		raise exception using errcode = 'invalid_parameter_value', message = 'on_error must be raise or reject';
	end if;
	if "order" is null or "order" not in ('lock', 'call') then
		raise exception using errcode = 'invalid_parameter_value', message = 'order must be lock or call';
	end if;
	f := postrider.form_faults(e);
	if cardinality(f) = 0 then
		f := postrider.faults(e);
	end if;
	if cardinality(f) > 0 then
		select string_agg(case x.code when 'loop_detected' then x.reason else x.field || ' ' || x.reason end, E'\n')
			into said from unnest(f) x;
		if on_error = 'raise' then
			raise exception using errcode = 'invalid_parameter_value', message = said, column = f[1].field;
		end if;
	end if;
	if exists (select from postrider.producers) then
		perform postrider.check_producer(e.account, e.type);
	end if;
	if cardinality(f) > 0 then
		e.tx := pg_current_xact_id();
		e.number := nextval('postrider.outbox_number');
		insert into postrider.outbox_rejected values (e.*, clock_timestamp(), f[1].code, f[1].field, said);
		return postrider.row_id(e.id);
	end if;
	if e.ordering_key is not null and "order" = 'lock' then
		perform pg_advisory_xact_lock(hashtextextended(e.ordering_key, hashtextextended(e.account, 0)));
	end if;
	e.tx := pg_current_xact_id();
	e.number := nextval('postrider.outbox_number');
	insert into postrider.outbox overriding system value values (e.*);
	return postrider.row_id(e.id);
end
$fn$;

-- publish stores an event in the caller's transaction. The fields of the row are in the order of the
-- columns of outbox.
--
-- Most events need no more than the first condition, which is a part of what form_faults and faults say, and
-- the first insert. In each transaction, PostgreSQL prepares each expression that it comes to anew, so this
-- takes half the time of add.
create or replace function postrider.publish(
	account text, type text, data json, idempotency_key text default null, ordering_key text default null,
	api_version text default null, max_attempts int default null, subject text default null, channels text[] default null,
	metadata json default null, internal json default null, previous json default null, changed_paths text[] default null,
	endpoints text[] default null, hops int default null, traceparent text default null, tracestate text default null,
	occurred_at timestamptz default null, on_error text default 'raise', "order" text default 'lock'
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $fn$
declare
	id uuid;
begin
	if account <> '' and type ~ '^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$' and octet_length(type) <= 128 and not starts_with(type, 'postrider.')
		and octet_length(data::text) <= 262144 / 3 and num_nonnulls(api_version, max_attempts, subject, channels, metadata, internal, previous,
			changed_paths, endpoints, hops, occurred_at) = 0
		and (idempotency_key is null or octet_length(idempotency_key) between 1 and 256)
		and (ordering_key is null or octet_length(ordering_key) between 1 and 256)
		and concat(account, idempotency_key, ordering_key) !~ '[[:cntrl:]]' and on_error in ('raise', 'reject') and "order" in ('lock', 'call')
	then
		if ordering_key is not null and "order" = 'lock' then
			perform pg_advisory_xact_lock(hashtextextended(ordering_key, hashtextextended(account, 0)));
		end if;
		insert into postrider.outbox as o (account, type, data, idempotency_key, ordering_key, traceparent, tracestate, occurred_at)
		select publish.account, publish.type, convert_to(publish.data::text, 'UTF8'), publish.idempotency_key, publish.ordering_key,
			publish.traceparent, publish.tracestate, transaction_timestamp()
		where not exists (select from postrider.producers)
		returning o.id into id;
		if found then
			return postrider.row_id(id);
		end if;
	end if;
	return postrider.add(
		row(null, null, gen_random_uuid(), account, type, convert_to(data::text, 'UTF8'), null, idempotency_key, nullif(ordering_key, ''),
			nullif(api_version, ''), max_attempts, subject, nullif(channels, '{}'), metadata, internal,
			case when json_typeof(previous) <> 'null' then previous end, nullif(changed_paths, '{}'), endpoints, hops, traceparent, tracestate,
			coalesce(occurred_at, transaction_timestamp()), clock_timestamp(), session_user)::postrider.outbox,
		on_error, "order");
end
$fn$;

-- publish_bytes does what publish does, for data that is not JSON.
create or replace function postrider.publish_bytes(
	account text, type text, data bytea, content_type text, idempotency_key text default null, ordering_key text default null,
	api_version text default null, max_attempts int default null, subject text default null, channels text[] default null,
	metadata json default null, internal json default null, previous json default null, changed_paths text[] default null,
	endpoints text[] default null, hops int default null, traceparent text default null, tracestate text default null,
	occurred_at timestamptz default null, on_error text default 'raise', "order" text default 'lock'
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $fn$
begin
	return postrider.add(
		row(null, null, gen_random_uuid(), account, type, data, coalesce(content_type, ''), idempotency_key, nullif(ordering_key, ''),
			nullif(api_version, ''), max_attempts, subject, nullif(channels, '{}'), metadata, internal,
			case when json_typeof(previous) <> 'null' then previous end, nullif(changed_paths, '{}'), endpoints, hops, traceparent, tracestate,
			coalesce(occurred_at, transaction_timestamp()), clock_timestamp(), session_user)::postrider.outbox,
		on_error, "order");
end
$fn$;

-- tell is for the trigger of outbox install --notify.
create or replace function postrider.tell() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $fn$
begin
	notify postrider_outbox;
	return null;
end
$fn$;
