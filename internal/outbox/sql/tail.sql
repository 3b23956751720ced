revoke all on all functions in schema postrider from public;
grant usage on schema postrider to postrider_producer, postrider_reader;
grant execute on function postrider.publish, postrider.publish_bytes to postrider_producer;
grant execute on function
	postrider.adopt, postrider.poll, postrider.of_account, postrider.walk_end, postrider.move, postrider.reject, postrider.put_back, postrider.keep, postrider.limit_data,
	postrider.stats, postrider.retry_rejected, postrider.discard_rejected, postrider.expunge, postrider.row_id
	to postrider_reader;
grant select on all tables in schema postrider to postrider_reader;
grant select on sequence postrider.outbox_number to postrider_reader;
