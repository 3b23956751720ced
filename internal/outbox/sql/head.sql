-- The outbox of Postrider: tables and functions in a schema of their own. Run this script in one
-- transaction, as a superuser or as a role that may create roles and may create schemas in this
-- database. Another role is told what a superuser must run first. The script may run again, and upgrades
-- what an older version made.
do $do$
begin
	if current_setting('server_version_num')::int < 150000 then
		raise exception 'PostgreSQL % is too old for the outbox of Postrider', current_setting('server_version')
			using hint = 'The oldest version that Postrider is tested with is 15.';
	end if;
	perform pg_advisory_xact_lock(hashtextextended('postrider outbox install', 0));
end
$do$;

-- postrider_outbox owns everything. postrider_producer is for the roles that publish, and
-- postrider_reader is for the role that Postrider connects as.
--
-- From here on postrider_outbox does everything. A role that may not become it, but may grant it, is its
-- member until the end of the script.
do $do$
declare
	r text;
	missing text[];
begin
	perform set_config('postrider.role_before', current_setting('role'), false), set_config('postrider.member', '', false);
	foreach r in array array['postrider_outbox', 'postrider_producer', 'postrider_reader'] loop
		begin
			if not exists (select from pg_roles where rolname = r) then
				execute format('create role %I nologin', r);
			end if;
		exception when duplicate_object or unique_violation then -- made by another session
		end;
	end loop;
	if exists (select from pg_roles where rolname = 'postrider_outbox' and (rolcanlogin or rolsuper)) then
		raise exception 'the role postrider_outbox may log in or is a superuser'
			using hint = 'Run: alter role postrider_outbox nologin nosuperuser';
	end if;
	if exists (select from pg_namespace where nspname = 'postrider' and nspowner <> 'postrider_outbox'::regrole) then
		raise exception 'the schema postrider belongs to another role than postrider_outbox'
			using hint = 'The outbox needs a schema of its own with this name. Rename or drop the one that is there.';
	end if;
	if not pg_has_role('postrider_outbox', 'pg_read_all_stats', 'member') then
		begin
			grant pg_read_all_stats to postrider_outbox; -- to see open transactions and replicas
		exception when insufficient_privilege then
			raise warning 'Postrider will not see the open transactions of other roles'
				using hint = 'A superuser changes that by: grant pg_read_all_stats to postrider_outbox';
		end;
	end if;
	for again in 0..1 loop
		begin
			if not exists (select from pg_namespace where nspname = 'postrider') then
				create schema postrider authorization postrider_outbox;
			end if;
			set role postrider_outbox;
			exit;
		exception when insufficient_privilege then
			if again = 1 then
				raise;
			end if;
			execute format('grant postrider_outbox to %I', current_user);
			perform set_config('postrider.member', current_user, false);
		end;
	end loop;
exception when insufficient_privilege then
	missing := array(
		select format('create role %I', n) from unnest(array['postrider_outbox', 'postrider_producer', 'postrider_reader']) n
		where not exists (select from pg_roles where rolname = n)) || case
			when not has_database_privilege(current_database(), 'create') and not exists (select from pg_namespace where nspname = 'postrider')
				then format('grant create on database %I to %I', current_database(), current_user) end
		|| format('grant postrider_outbox to %I%s', current_user,
			case when current_setting('server_version_num')::int >= 160000 then ' with inherit false' else '' end);
	raise insufficient_privilege using
		message = format('role %s may not do the work of postrider_outbox: %s', current_user, sqlerrm),
		hint = format('Use a superuser, or a role that may create roles and schemas. Or let a superuser run: %s; and, once this is done: revoke postrider_outbox from %I.',
			array_to_string(missing, '; '), current_user);
end
$do$;

create table if not exists postrider.outbox_version (
	version int primary key,
	installed_at timestamptz not null default now()
);
