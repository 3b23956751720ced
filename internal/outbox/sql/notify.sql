-- Wakes Postrider at each commit. PREPARE TRANSACTION refuses transactions that notify, and commits
-- that notify wait for each other.
do $do$
begin
	if not exists (select from pg_trigger where tgrelid = 'postrider.outbox'::regclass and tgname = 'outbox_tell') then
		create trigger outbox_tell after insert on postrider.outbox for each statement execute function postrider.tell();
	end if;
end
$do$;
