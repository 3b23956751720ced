package lab

import (
	"encoding/json"
	"fmt"
)

// SeedSQL makes copies of a row that the server made. Columns that are not overridden keep the
// row's values, so SeedSQL need not know all columns of a table. The ids that it makes are ordered
// by time, as the server's are.
const SeedSQL = `
	set timezone = 'UTC';
	create function pg_temp.multiply(target text, which text, overrides jsonb, source text) returns bigint
	language plpgsql as $$
	declare
		names text;
		exprs text;
		made  bigint;
	begin
		select string_agg(quote_ident(attname), ', ' order by attnum),
			string_agg(coalesce(overrides ->> attname::text, 'base.' || quote_ident(attname)), ', ' order by attnum)
		into names, exprs
		from pg_attribute
		where attrelid = target::regclass and attnum > 0 and not attisdropped and attgenerated = '';
		execute format('insert into %1$s (%2$s) select %3$s from (select x.* from %1$s x where %4$s limit 1) base, %5$s',
			target, names, exprs, which, source);
		get diagnostics made = row_count;
		if made = 0 then
			raise exception 'there is no row of % to multiply', target;
		end if;
		return made;
	end
	$$;
	create function pg_temp.make_id(ms bigint, n bigint) returns uuid
	language sql immutable as $$
		select encode(int8send((ms << 16) | (7 << 12) | (n & 4095)) || int8send(-9223372036854775808 | n), 'hex')::uuid
	$$;
`

// Copies describes rows that are copied from one row.
type Copies struct {
	Table     string
	Which     string            // SQL condition that finds the row
	Overrides map[string]string // SQL by column; may use base and the names of Source
	Source    string
}

// SQL returns the statement. The strings come from bench itself, so dollar quotes are enough.
func (c Copies) SQL() string {
	overrides, err := json.Marshal(c.Overrides)
	if err != nil {
		return "" // strings always encode
	}
	return fmt.Sprintf("select pg_temp.multiply($s$%s$s$, $s$%s$s$, $s$%s$s$, $s$%s$s$);\n", c.Table, c.Which, overrides, c.Source)
}
