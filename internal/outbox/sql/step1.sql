-- Rows that wait for Postrider.
create table postrider.outbox (
	tx xid8 not null default pg_current_xact_id(),
	number bigint generated always as identity (sequence name postrider.outbox_number cache 1) primary key,
	id uuid not null default gen_random_uuid(),
	account text not null,
	type text not null,
	data bytea not null,
	content_type text,
	idempotency_key text,
	ordering_key text,
	api_version text,
	max_attempts int,
	subject text,
	channels text[],
	metadata json,
	internal json,
	previous json,
	changed_paths text[],
	endpoints text[],
	hops int,
	traceparent text,
	tracestate text,
	occurred_at timestamptz,
	published_at timestamptz not null default clock_timestamp(),
	producer name not null default session_user
);
-- The expression keeps this index from statements that look for a number. After a vacuum of an empty table, the planner would
-- take it for them, and each look-up would walk through all of it.
create index outbox_tx on postrider.outbox (tx, (number + 0));

-- Rows come and go, so dead ones must go soon. Truncation would lock out producers for a moment.
alter table postrider.outbox set (
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
	autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 500000,
	autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 500000, vacuum_truncate = off,
	toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000,
	toast.autovacuum_vacuum_cost_delay = 0, toast.vacuum_truncate = off
);

-- Rows that Postrider has read, by the hour. A partition is dropped as a whole.
create table postrider.outbox_read (
	like postrider.outbox,
	read_at timestamptz not null,
	cycle bigint not null
) partition by range (read_at);
create index outbox_read_at on postrider.outbox_read (read_at, number);

create table postrider.outbox_dropped (
	hour timestamptz primary key,
	rows bigint not null
);

-- Rows that are no valid events. They wait for a person.
create table postrider.outbox_rejected (
	like postrider.outbox,
	rejected_at timestamptz not null,
	code text not null,
	field text not null,
	message text not null,
	primary key (number, id, rejected_at) -- a number of a row that was written by hand may come again
);
alter table postrider.outbox_rejected
	alter column account drop not null, alter column type drop not null, alter column data drop not null;
create index outbox_rejected_at on postrider.outbox_rejected (rejected_at, number);
create index outbox_rejected_id on postrider.outbox_rejected (id);

-- Who may publish for which accounts and types. While it is empty, every role may that may execute publish.
create table postrider.producers (
	role name primary key,
	accounts text[],
	types text[]
);

-- The cycles of the readers. Only the last one of a source counts. They are inserted and not
-- updated: beside an open transaction, updates of one row would make a long chain of versions.
create table postrider.outbox_cycle (
	source uuid,
	cycle bigint,
	reached text, -- the window up to which all rows are moved, as the reader writes it
	primary key (source, cycle)
);

-- The largest data that the server accepts that reads the outbox, in bytes. No row: 262144.
create table postrider.outbox_limit (
	max_data int not null
);

-- A fault of an event. The field has the name that it has in the API.
create type postrider.fault as (field text, code text, reason text);

comment on table postrider.outbox is 'Events that wait until Postrider reads them.';
comment on table postrider.outbox_read is 'Events that Postrider has read. They are kept for the case that its own store is restored from a backup.';
comment on table postrider.outbox_rejected is 'Events that are not valid, with the reason. postrider sources retry publishes them again.';
comment on table postrider.outbox_dropped is 'How many read events were deleted, by the hour in which they were read.';
comment on table postrider.producers is 'Bounds of the roles that publish. Empty: every role with postrider_producer may publish everything. accounts and types null: all. A type may end with .* for all types below it.';
comment on table postrider.outbox_limit is 'What the reader accepts. It writes the row by itself.';
comment on table postrider.outbox_cycle is 'Batches that the readers have read.';
