package outbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
)

const (
	// againEvery is how long a rejected row is left out before it is tried again.
	againEvery = time.Minute
	// maxRefused is the greatest number of rejected rows. Their ids are an argument of each poll.
	maxRefused = 10_000
)

// ownTable is an outbox table of the producer's own. Its rows wait until they are published, and are deleted
// then. Nothing of Postrider is in the database.
//
// A poll reads from the start of the table, so that no row is missed whose transaction commits late. Rows that
// were read and not deleted are left out by their ids, or by their account: see [Window].
type ownTable struct {
	postrider.SourceTable

	pool   *pgxpool.Pool
	source postrider.SourceID
	fill   *strings.Replacer // of the names in the statements
	uuid   bool              // the ids are UUIDs

	mu      sync.Mutex
	refused map[string]time.Time // when a row was rejected last, by its Key
}

// Own reports whether the outbox is a table of the producer's own. Then these do nothing or find nothing: Cycle,
// Keep, Listen. These must not be called: ReadSince, PutBack, Dropped, Rejected, Retry, Discard.
func (db *DB) Own() bool { return db.own != nil }

// ownSQL has what a source must know of the table. Without a row, there is no table.
const ownSQL = `
select
  array(select x.name from unnest($3::text[]) x(name) where x.name <> '' and not exists (
    select from pg_attribute a where a.attrelid = c.oid and a.attname = x.name and a.attnum > 0 and not a.attisdropped)),
  coalesce(format_type(id.atttypid, id.atttypmod), ''),
  coalesce((select a.atttypid::regtype::text from pg_attribute a where a.attrelid = c.oid and a.attname = $5), ''),
  coalesce((select a.atttypid::regtype::text from pg_attribute a where a.attrelid = c.oid and a.attname = $6), ''),
  coalesce(id.attnotnull, false) and exists (
    select from pg_index i
    where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null and i.indnkeyatts = 1 and i.indkey[0] = id.attnum),
  has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'delete'),
  row_security_active(c.oid),
  coalesce((
    select t.tgname::text from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where t.tgrelid = c.oid and not t.tgisinternal and t.tgenabled <> 'D' and p.prosrc ~* '\mdelete\s+from\M|\mtruncate\M' limit 1), ''),
  coalesce((
    select s.slot_name::text from pg_replication_slots s
    where s.slot_type = 'logical' and s.database = current_database() and (s.plugin <> 'pgoutput' or exists (
      select from pg_publication_tables p where p.schemaname = $1 and p.tablename = $2)) limit 1), '')
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_attribute id on id.attrelid = c.oid and id.attname = $4 and id.attnum > 0 and not id.attisdropped
where n.nspname = $1 and c.relname = $2 and c.relkind = 'r'`

// idTypes are the types of ids, numbers first.
var idTypes = []string{"bigint", "integer", "smallint", "numeric", "uuid", "text", "character varying", "character"}

// openTable checks that a table can be an outbox. The error says what is wrong.
func openTable(ctx context.Context, pool *pgxpool.Pool, source postrider.SourceID, t postrider.SourceTable) (*ownTable, error) {
	ordered := t.Order != ""
	t.Order = cmp.Or(t.Order, t.ID)
	var lacking []string
	var idType, orderType, dataType, trigger, slot string
	var unique, granted, secured bool
	schema, name, _ := strings.Cut(t.Name, ".")
	columns := []string{t.ID, t.Order, t.Account, t.Type, t.Data, t.OrderingKey}
	err := pool.QueryRow(ctx, ownSQL, schema, name, columns, t.ID, t.Order, t.Data).
		Scan(&lacking, &idType, &orderType, &dataType, &unique, &granted, &secured, &trigger, &slot)
	refuse := func(format string, args ...any) (*ownTable, error) {
		return nil, fmt.Errorf("the table "+t.Name+" "+format, args...)
	}
	base, _, _ := strings.Cut(idType, "(")
	number := slices.Contains(idTypes[:4], base)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return refuse("is not there, or is no plain table")
	case err != nil:
		return refuse("cannot be looked at: %w", err)
	case len(lacking) > 0:
		return refuse("has no column %s", strings.Join(lacking, ", "))
	case !slices.Contains(idTypes, base):
		return refuse("has ids of the type %s; they must be of the type uuid, a number or a text", idType)
	case !unique:
		return refuse("needs a primary key of the column %s alone, or a unique index on it with not null, because rows are deleted by it", t.ID)
	case t.OrderingKey != "" && !ordered && !number:
		return refuse("has ids that are no numbers, so with a column of ordering keys it needs one for the order, whose values rise within a key")
	case !granted:
		return refuse("may not be read and deleted from by the role; run in the database: grant select, delete on %s to the role of the URL"+
			", and grant usage on schema %s", t.Name, schema)
	case secured:
		return refuse("has row security for the role, which may hide rows; run in the database: alter role … bypassrls")
	case trigger != "":
		return refuse("has the trigger %s, whose function deletes; the rows must stay until they are read, so drop the trigger", trigger)
	case slot != "":
		return refuse("is read through the replication slot %s, as by a connector of Debezium, so each event would be sent twice; "+
			"drop the slot, or take the table out of its publication", slot)
	}
	own := &ownTable{
		SourceTable: t, pool: pool, source: source, uuid: idType == "uuid", refused: map[string]time.Time{},
		fill: names(t, idType, orderType, dataType),
	}
	if _, err := pool.Exec(ctx, own.sql(ownHeadSQL), []string{}, "", []string{}, 0, 0); err != nil {
		return refuse("cannot be read with these columns: %w", err)
	}
	return own, nil
}

// names has what stands for the names of a table in statements.
func names(t postrider.SourceTable, idType, orderType, dataType string) *strings.Replacer {
	column := func(name string) string { return pgx.Identifier{"t", name}.Sanitize() }
	account := "'" + strings.ReplaceAll(t.FixedAccount, "'", "''") + "'::text"
	if t.Account != "" {
		account = "coalesce(" + column(t.Account) + "::text, '')"
	}
	data, key, at := "convert_to("+column(t.Data)+"::text, 'UTF8')", "null::text", "null::timestamptz"
	if dataType == "bytea" {
		data = column(t.Data)
	}
	if t.OrderingKey != "" {
		key = column(t.OrderingKey) + "::text"
	}
	if orderType == "timestamp with time zone" {
		at = column(t.Order)
	}
	schema, name, _ := strings.Cut(t.Name, ".")
	sum := "encode(sha256(convert_to(row(" + account + ", " + column(t.Type) + ", " + key + ", " + data + ")::text, 'UTF8')), 'hex')"
	return strings.NewReplacer("{table}", pgx.Identifier{schema, name}.Sanitize(), "{id}", column(t.ID), "{ids}", idType+"[]",
		"{order}", column(t.Order), "{account}", account, "{type}", column(t.Type), "{data}", data, "{key}", key, "{at}", at, "{sum}", sum)
}

func (t *ownTable) sql(text string) string { return t.fill.Replace(text) }

// ownHeadSQL reads the first rows without those of the accounts $1 and with the ids $3, or only those of the account
// $2, and ends behind the row whose data passes the size $5. Data of null is refused as empty.
const ownHeadSQL = `
select o.key, o.account, o.type, case when octet_length(o.data) <= 1048576 then o.data end, octet_length(o.data), o.ordering_key,
  o.at, o.sum, o.found
from (
  select p.*, count(*) over () as found,
    coalesce(sum(octet_length(p.data)) over (order by p.place, p.id rows between unbounded preceding and 1 preceding), 0) as before
  from (
    select {id} as id, {id}::text as key, {order} as place, {account} as account, {type}::text as type,
      coalesce({data}, ''::bytea) as data, {key} as ordering_key, {at} as at, {sum} as sum
    from {table} t
    where {account} <> all($1::text[]) and ($2 = '' or {account} = $2) and {id} <> all($3::text[]::{ids})
    order by {order}, {id}
    limit $4
  ) p
) o
where o.before < $5
order by o.place, o.id`

// head returns at most n rows from the start of the table.
func (t *ownTable) head(ctx context.Context, held []string, account string, n int) (rows []Row, more bool, err error) {
	out, err := t.out()
	if err != nil {
		return nil, false, err
	}
	if held == nil {
		held = []string{}
	}
	all, err := t.pool.Query(ctx, t.sql(ownHeadSQL), held, account, out, n, pageBytes)
	if err != nil {
		return nil, false, fmt.Errorf("read the table %s: %w", t.Name, err)
	}
	defer all.Close()
	var number int64
	found := 0
	for all.Next() {
		s, key, sum := stored{number: &number}, "", ""
		if err := all.Scan(&key, &s.account, &s.eventType, &s.data, &s.size, &s.order, &s.publishedAt, &sum, &found); err != nil {
			return nil, false, fmt.Errorf("read a row of the table %s: %w", t.Name, err)
		}
		row := s.row()
		row.Key, row.sum, row.ID = key, sum, t.id(key, &s)
		rows = append(rows, row)
	}
	if err := all.Err(); err != nil {
		return nil, false, fmt.Errorf("read the table %s: %w", t.Name, err)
	}
	return rows, found == n || len(rows) < found, nil
}

// id returns the id by which the store knows a row: its UUID, or a hash (UUIDv8) of the source, the table, the text of
// its id and its content. After a failover to a replica that lacks rows, their numbers are given to other rows.
func (t *ownTable) id(key string, s *stored) (id postrider.OutboxID) {
	var given pgtype.UUID
	if t.uuid && given.Scan(key) == nil && given.Bytes != [16]byte{} { // the store cannot record a row without an id
		return given.Bytes
	}
	hash := sha256.New()
	content := []string{t.source.String(), t.Name, key, text(s.account), text(s.eventType), text(s.order), moment(s.publishedAt).String()}
	fmt.Fprintf(hash, "%q %s", content, s.data)
	copy(id[:], hash.Sum(nil))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id
}

// out returns the ids of the rows that are left out. It forgets those that were not rejected again when they
// were tried again: somebody has corrected or deleted them.
func (t *ownTable) out() ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := make([]string, 0, len(t.refused))
	for key, at := range t.refused {
		switch age := time.Since(at); {
		case age > 2*againEvery:
			delete(t.refused, key)
		case age < againEvery:
			keys = append(keys, key)
		}
	}
	if len(keys) > maxRefused {
		return nil, fmt.Errorf("more than %d rows of the table %s are rejected; correct or delete them", maxRefused, t.Name)
	}
	return keys, nil
}

// ownTheseSQL finds rows by their ids and their content. Another row may have got the id since it was read: a row that
// somebody changed, or a new one after a failover.
const ownTheseSQL = `
from {table} t
where {id} = any($1::text[]::{ids}) and ({id}::text, {sum}) in (select * from unnest($1::text[], $2::text[]))`

// remove deletes rows. Those that are gone are no error. Those that are still there afterwards are one: if they
// were read for ever, nobody would know.
func (t *ownTable) remove(ctx context.Context, rows []Row) (int64, error) {
	keys, sums := make([]string, len(rows)), make([]string, len(rows))
	for i := range rows {
		keys[i], sums[i] = rows[i].Key, rows[i].sum
	}
	done, err := t.pool.Exec(ctx, t.sql("delete"+ownTheseSQL), keys, sums)
	left := 0
	if err == nil && done.RowsAffected() < int64(len(keys)) {
		err = t.pool.QueryRow(ctx, t.sql("select count(*)"+ownTheseSQL), keys, sums).Scan(&left)
	}
	if err == nil && left > 0 {
		err = errors.New("a trigger or a rule of the table keeps them")
	}
	if err != nil {
		return 0, fmt.Errorf("delete rows of the table %s: %w", t.Name, err)
	}
	return done.RowsAffected(), nil
}

// move deletes the rows that are published, and leaves out those that are rejected.
func (t *ownTable) move(ctx context.Context, m Moved) error {
	if _, err := t.remove(ctx, m.Rows); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range m.Rows {
		delete(t.refused, m.Rows[i].Key)
	}
	for _, r := range m.Rejected {
		t.refused[r.Key] = time.Now()
	}
	return nil
}

// Head returns at most n rows from the start of a table of the producer's own, also those that were rejected.
func (db *DB) Head(ctx context.Context, n int) ([]Row, error) {
	rows, _, err := db.own.head(ctx, nil, "", n)
	return rows, err
}

// Remove deletes rows of a table of the producer's own, and returns how many there were.
func (db *DB) Remove(ctx context.Context, rows []Row) (int64, error) {
	return db.own.remove(ctx, rows)
}

// expunge deletes all rows of an account.
func (t *ownTable) expunge(ctx context.Context, names []string) (int64, error) {
	done, err := t.pool.Exec(ctx, t.sql("delete from {table} t where {account} = any($1::text[])"), names)
	if err != nil {
		return 0, fmt.Errorf("expunge rows of the table %s: %w", t.Name, err)
	}
	return done.RowsAffected(), nil
}

// row says whether a row waits. Only UUIDs are found: of another id there is only a hash.
func (t *ownTable) row(ctx context.Context, id postrider.OutboxID) (p Place, err error) {
	if !t.uuid {
		return Place{}, nil
	}
	err = t.pool.QueryRow(ctx, t.sql("select coalesce((select 'waiting' from {table} t where {id} = $1), '')"),
		pgtype.UUID{Bytes: id, Valid: true}).Scan(&p.Where)
	if err != nil {
		return Place{}, fmt.Errorf("find a row of the table %s: %w", t.Name, err)
	}
	return p, nil
}

const ownStatsSQL = `
select w.rows, w.oldest,
  (select min(a.xact_start) from pg_stat_activity a
   where a.datname = current_database() and a.pid <> pg_backend_pid() and (a.backend_xid is not null or a.backend_xmin is not null)),
  (select count(*) from pg_stat_replication r where r.sync_state = 'async' and r.state <> 'backup')
from (
  select count(*) as rows, min(x.at) as oldest
  from (select {at} as at from {table} t where {id} <> all($1::text[]::{ids}) order by {order} limit 10001) x
) w`

// stats returns numbers for people. Waiting ends at 10,001. Rejected is what this DB has rejected.
func (t *ownTable) stats(ctx context.Context) (s Stats, err error) {
	t.mu.Lock()
	refused := make([]string, 0, len(t.refused))
	for key := range t.refused {
		refused = append(refused, key)
	}
	t.mu.Unlock()
	s.Rejected = int64(len(refused))
	var oldest, open pgtype.Timestamptz
	if err := t.pool.QueryRow(ctx, t.sql(ownStatsSQL), refused).Scan(&s.Waiting, &oldest, &open, &s.AsyncReplicas); err != nil {
		return Stats{}, fmt.Errorf("count rows of the table %s: %w", t.Name, err)
	}
	s.Oldest, s.OpenSince = moment(oldest), moment(open)
	return s, nil
}
