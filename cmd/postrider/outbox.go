package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/outbox"
)

// outboxCmd is the group of commands for the outbox of a producer. They work on the producer's database
// and need no server.
type outboxCmd struct {
	Install outboxInstallCmd `cmd:"" help:"Make the tables and functions of the outbox in a producer's database, or upgrade them."`
	SQL     outboxSQLCmd     `cmd:"" name:"sql" help:"Print the SQL that install runs, for migrations of your own."`
	Upgrade outboxUpgradeCmd `cmd:"" help:"Upgrade an outbox to the version of this program."`
	Status  outboxStatusCmd  `cmd:"" help:"Show how many rows wait or were rejected, and what holds them up."`
	Remove  outboxRemoveCmd  `cmd:"" help:"Delete the outbox. Refused while rows wait, unless forced."`
}

// producer has the flags that say where the database of a producer is.
type producer struct {
	noSettings

	DatabaseURL     string `name:"database-url" xor:"database" placeholder:"postgres://…" help:"URL of the producer's database, as for psql. A password in the flag is refused: use PGPASSWORD, a password file of psql, or --database-url-file."`
	DatabaseURLFile string `name:"database-url-file" xor:"database" placeholder:"FILE" help:"File with the URL, which may have a password; - is stdin."`
}

// at returns how to reach the database.
func (p producer) at(t terminal) (outbox.Config, error) {
	c := outbox.Config{URL: p.DatabaseURL, Local: true, Warn: func(text string) { fmt.Fprintln(t.err, "warning:", text) }}
	switch {
	case p.DatabaseURL != "" && holdsPassword(p.DatabaseURL):
		return c, misused(passwordInFlag, "--database-url-file")
	case p.DatabaseURL != "":
		return c, nil
	case p.DatabaseURLFile == "":
		return c, misused("--database-url: must be there, like postgres://user@host:5432/database")
	}
	var text []byte
	var err error
	if p.DatabaseURLFile == "-" {
		text, err = io.ReadAll(t.in)
	} else {
		text, err = os.ReadFile(p.DatabaseURLFile)
	}
	if err != nil {
		return c, misused("--database-url-file: cannot be read: %s", err)
	}
	c.URL = strings.TrimSpace(string(text))
	return c, nil
}

// passwordInFlag refuses a password in --database-url. Its argument is the flag for a file.
const passwordInFlag = "--database-url: must not hold a password, which every user of this machine can read; use PGPASSWORD or %s"

// holdsPassword reports whether a URL has a password.
func holdsPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return true // it may be anywhere
	}
	_, given := u.User.Password()
	return given || u.Query().Has("password") || u.Query().Has("sslpassword")
}

type outboxInstallCmd struct {
	producer

	Notify bool `help:"Wake Postrider at each commit. Then commits that publish wait for each other: a transaction of 3.2 ms took 5.9 ms with 16 clients on two cores. And PREPARE TRANSACTION refuses transactions that publish. Without it Postrider asks up to once a second. Left out: an existing trigger is removed."`
}

// Help returns the text above the flags in the help of the command.
func (outboxInstallCmd) Help() string {
	return "Makes the schema postrider in one transaction, and the roles postrider_outbox, postrider_producer and postrider_reader. " +
		"The URL needs a role that may create roles, and schemas in the database; another role is told what a superuser must run first. " +
		"It may be repeated. docs/outbox.md describes the outbox."
}

// Run installs the outbox and says what to grant.
func (c *outboxInstallCmd) Run(ctx context.Context, t terminal) error {
	at, err := c.at(t)
	if err == nil {
		err = outbox.Install(ctx, at, c.Notify)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, `The outbox is installed, version %d. Next, in the database:
  grant postrider_producer to ROLE   for each role that publishes
  grant postrider_reader to ROLE     for the role that Postrider connects as
`, outbox.Version)
	return err
}

type outboxSQLCmd struct {
	noSettings

	Notify bool `help:"As of install."`
}

// Run prints the script.
func (c *outboxSQLCmd) Run(t terminal) error {
	_, err := io.WriteString(t.out, outbox.Text(c.Notify))
	return err
}

type outboxUpgradeCmd struct{ producer }

// Run upgrades the outbox.
func (c *outboxUpgradeCmd) Run(ctx context.Context, t terminal) error {
	at, err := c.at(t)
	if err == nil {
		err = outbox.Upgrade(ctx, at)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "The outbox has version %d.\n", outbox.Version)
	return err
}

type outboxRemoveCmd struct {
	producer

	Force bool `help:"Also delete rows that wait or were rejected."`
}

// Help returns the text above the flags in the help of the command.
func (outboxRemoveCmd) Help() string {
	return "Deletes the schema postrider, and the roles unless another database of the cluster needs them. First pause or delete the source."
}

// Run removes the outbox.
func (c *outboxRemoveCmd) Run(ctx context.Context, t terminal) error {
	at, err := c.at(t)
	if err == nil {
		err = outbox.Remove(ctx, at, c.Force)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, "The outbox is removed.")
	return err
}

type outboxStatusCmd struct {
	producer

	JSON bool `name:"json" help:"Print the result as JSON."`
}

// outboxStatus is the output of outbox status.
type outboxStatus struct {
	Version       int            `json:"version"`
	Notifies      bool           `json:"notifies"`
	Waiting       int64          `json:"waiting"`
	Oldest        *apitypes.Time `json:"oldest"`
	Rejected      int64          `json:"rejected"`
	OpenSince     *apitypes.Time `json:"open_since"`
	AsyncReplicas int            `json:"async_replicas"`
}

// Run shows the numbers of the outbox.
func (c *outboxStatusCmd) Run(ctx context.Context, t terminal) error {
	at, err := c.at(t)
	if err != nil {
		return err
	}
	db, err := outbox.Open(ctx, at)
	if err != nil {
		return err
	}
	defer db.Close()
	stats, err := db.Stats(ctx)
	if err != nil {
		return err
	}
	s := outboxStatus{Version: stats.Version, Waiting: stats.Waiting, Rejected: stats.Rejected, AsyncReplicas: stats.AsyncReplicas}
	if !stats.Oldest.IsZero() {
		s.Oldest = &apitypes.Time{Time: stats.Oldest}
	}
	if !stats.OpenSince.IsZero() {
		s.OpenSince = &apitypes.Time{Time: stats.OpenSince}
	}
	if s.Notifies, err = db.Notifies(ctx); err != nil {
		return err
	}
	return printDetails(t, c.JSON, s)
}
