do $do$
begin
	if exists (select from pg_trigger where tgrelid = 'postrider.outbox'::regclass and tgname = 'outbox_tell') then
		drop trigger outbox_tell on postrider.outbox;
	end if;
end
$do$;
