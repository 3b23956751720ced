-- The outbox of Postrider: tables and functions in a schema of their own. Run this script in one
-- transaction, as a superuser or as a role that may create roles and may create schemas in this
-- database. It may run again, and upgrades what an older version made.
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
do $do$
declare
	r text;
begin
	foreach r in array array['postrider_outbox', 'postrider_producer', 'postrider_reader'] loop
		begin
			if not exists (select from pg_roles where rolname = r) then
				execute format('create role %I nologin', r);
			end if;
		exception when duplicate_object or unique_violation then -- made by another session
		end;
	end loop;
	if not (select rolsuper from pg_roles where rolname = current_user) then
		execute format('grant postrider_outbox to %I', current_user); -- so that it can make what the owner owns
	end if;
	begin
		grant pg_read_all_stats to postrider_outbox; -- to see open transactions and replicas
	exception when insufficient_privilege then
		raise notice 'Postrider will not see the open transactions of other roles: a superuser must grant pg_read_all_stats to postrider_outbox';
	end;
end
$do$;

create schema if not exists postrider authorization postrider_outbox;
set role postrider_outbox;

create table if not exists postrider.outbox_version (
	version int primary key,
	installed_at timestamptz not null default now()
);
