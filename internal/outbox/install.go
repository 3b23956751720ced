package outbox

import (
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The parts of the script. A step makes the tables of one version from those of the one before. The
// functions are replaced as a whole.
var (
	//go:embed sql/head.sql
	headSQL string
	//go:embed sql/step1.sql
	step1SQL string
	//go:embed sql/publish.sql
	publishSQL string
	//go:embed sql/read.sql
	readSQL string
	//go:embed sql/tail.sql
	tailSQL string
	//go:embed sql/notify.sql
	notifySQL string
	//go:embed sql/quiet.sql
	quietSQL string
	//go:embed sql/leave.sql
	leaveSQL string
	//go:embed sql/members.sql
	membersSQL string
	//go:embed sql/remove.sql
	removeSQL string
)

var steps = []string{step1SQL}

// Version is the version of the outbox that this program makes and needs.
const Version = 1

// Text returns the script that [Install] runs, for those who run migrations of their own. It may run
// again. With notify, Postrider is woken at each commit.
func Text(notify bool) string {
	if notify {
		return script(steps, notifySQL)
	}
	return script(steps, quietSQL)
}

// script returns the script for steps, and for a trigger.
func script(steps []string, trigger string) string {
	var b strings.Builder
	b.WriteString(headSQL)
	fmt.Fprintf(&b, `
do $do$
begin
	if (select max(version) from postrider.outbox_version) > %[1]d then
		raise exception 'the outbox has version %%, and this script makes version %[1]d', (select max(version) from postrider.outbox_version)
			using hint = 'Use a newer Postrider.';
	end if;
end
$do$;
`, len(steps))
	for i, step := range steps {
		fmt.Fprintf(&b, `
do $step$
begin
	if exists (select from postrider.outbox_version where version >= %[1]d) then
		return;
	end if;
	insert into postrider.outbox_version (version) values (%[1]d);

%[2]s
end
$step$;
`, i+1, strings.TrimSpace(step))
	}
	for _, part := range []string{publishSQL, readSQL, tailSQL, trigger, leaveSQL, membersSQL} {
		b.WriteString("\n" + part)
	}
	return b.String()
}

// Install makes the outbox, or upgrades it, in one transaction. It makes the trigger that notifies, or
// removes it. It gives up if it waits for a lock for five seconds, since producers would wait behind it.
func Install(ctx context.Context, c Config, notify bool) error {
	return c.run(ctx, "install the outbox", func(*pgx.Conn) (string, error) { return Text(notify), nil })
}

// Upgrade does what Install does for an outbox that exists, and leaves the trigger as it is.
func Upgrade(ctx context.Context, c Config) error {
	return c.run(ctx, "upgrade the outbox", func(conn *pgx.Conn) (string, error) {
		return script(steps, ""), installed(ctx, conn)
	})
}

// installed returns a VersionError if there is no outbox. It reads no table, because the role may have no right to.
func installed(ctx context.Context, conn *pgx.Conn) error {
	var there bool
	err := conn.QueryRow(ctx, `select exists (select from pg_class where relname = 'outbox_version'
		and relnamespace = (select oid from pg_namespace where nspname = 'postrider'))`).Scan(&there)
	if err == nil && !there {
		err = &VersionError{}
	}
	return err
}

// Remove deletes the outbox with all its rows. It refuses if rows wait or were rejected, unless force is
// true.
func Remove(ctx context.Context, c Config, force bool) error {
	return c.run(ctx, "remove the outbox", func(conn *pgx.Conn) (string, error) {
		if err := installed(ctx, conn); err != nil {
			return "", err
		}
		if _, err := conn.PgConn().Exec(ctx, headSQL+"lock table postrider.outbox in access exclusive mode").ReadAll(); err != nil {
			return "", err
		}
		var waiting, rejected int64
		err := conn.QueryRow(ctx, "select (select count(*) from postrider.outbox), (select count(*) from postrider.outbox_rejected)").
			Scan(&waiting, &rejected)
		if err == nil && waiting+rejected > 0 && !force {
			err = fmt.Errorf("%d rows wait for Postrider and %d were rejected; they would be lost, so this needs --force", waiting, rejected)
		}
		return "drop schema postrider cascade;\n" + leaveSQL + removeSQL, err
	})
}

// run connects and runs, in one transaction, the script that prepare returns.
func (c Config) run(ctx context.Context, doing string, prepare func(*pgx.Conn) (string, error)) error {
	config, err := c.parse()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if c.Warn != nil && n.SeverityUnlocalized == "WARNING" {
			c.Warn(n.Message + "; " + n.Hint)
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '5s'"); err != nil {
			return err
		}
		text, err := prepare(tx.Conn())
		if err != nil {
			return err
		}
		_, err = tx.Conn().PgConn().Exec(ctx, text).ReadAll()
		return err
	})
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Hint != "" {
		return fmt.Errorf("%s: %w; %s", doing, err, refused.Hint)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
