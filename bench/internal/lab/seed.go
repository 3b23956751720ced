package lab

import (
	"encoding/json"
	"fmt"
)

// SeedSQL multiplies a row that the server made: whatever columns a table has,
// those that are not overridden stay as they are, so that it knows no more of
// the tables than it must. The ids it makes order by time, as the
// server's do.
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

// Copies is rows to be made of one.
type Copies struct {
	Table     string
	Which     string            // the condition that it is found by
	Overrides map[string]string // SQL by column; base and what source names are in scope
	Source    string
}

// SQL returns the statement. Its strings are our own: dollars are quotation
// enough.
func (c Copies) SQL() string {
	overrides, err := json.Marshal(c.Overrides)
	if err != nil {
		return "" // strings always encode
	}
	return fmt.Sprintf("select pg_temp.multiply($s$%s$s$, $s$%s$s$, $s$%s$s$, $s$%s$s$);\n", c.Table, c.Which, overrides, c.Source)
}
