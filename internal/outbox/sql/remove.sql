-- Roles stay if another database of the cluster has an outbox, or if the caller may not drop them.
do $do$
declare
	r text;
begin
	foreach r in array array['postrider_reader', 'postrider_producer', 'postrider_outbox'] loop
		begin
			execute format('drop role if exists %I', r);
		exception when dependent_objects_still_exist or insufficient_privilege then
		end;
	end loop;
end
$do$;
