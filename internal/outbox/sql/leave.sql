-- The role is again the one that began, and has given up what it gave itself.
do $do$
begin
	perform set_config('role', current_setting('postrider.role_before'), false);
	if current_setting('postrider.member') <> '' then
		execute format('revoke postrider_outbox from %I', current_setting('postrider.member'));
	end if;
end
$do$;
