-- Nobody but postrider_outbox should be able to touch the rows.
do $do$
declare
	members text;
begin
	select string_agg(quote_ident(rolname), ', ' order by rolname) into members
	from pg_roles where rolcanlogin and not rolsuper and pg_has_role(oid, 'postrider_outbox', 'usage');
	if members is not null then
		raise warning 'these roles may change and delete the rows of the outbox: %', members
			using hint = format('A superuser ends that by: revoke postrider_outbox from %s', members);
	end if;
end
$do$;
