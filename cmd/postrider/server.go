package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/offline"
)

// serveCmd is the command serve. Its flags are the settings of the server.
type serveCmd struct {
	config.Config `embed:""`
}

// Help returns the text above the flags in the help of the command.
func (serveCmd) Help() string {
	return "Without any configuration, the store is SQLite in ./postrider-data and the API listens on 127.0.0.1:8080. " +
		"If the store has no API key yet, the server makes an admin key, writes it to admin.key in the data folder and prints it once.\n\n" +
		"A flag overrides the environment, and the environment overrides the file of --config."
}

// Run serves until the first SIGTERM or SIGINT, and then drains. It checks the configuration before
// it binds a port. So a wrong setting exits with 2, and a supervisor does not restart the server
// for ever.
func (c *serveCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	server, err := app.New(ctx, c.Config, config.Logger(c.Config, t.err))
	if err != nil {
		return err
	}
	// The first key exists only once the store is open. If the database cannot be reached, the
	// server already serves its listeners and tries again. So a goroutine waits for the store
	// beside the server. If the server ends before the store is open, nothing is printed.
	ended := make(chan struct{})
	var printing sync.WaitGroup
	printing.Go(func() {
		select {
		case <-server.Opened():
			printFirstKey(t, server.FirstKey())
		case <-ended:
		}
	})
	err = server.Run(ctx)
	close(ended)
	printing.Wait()
	return err
}

// printFirstKey prints the admin key that the server made for a new store. It prints to stdout and
// not to the log, because logs are collected and kept.
func printFirstKey(t terminal, key offline.FirstKey) {
	switch {
	case key.Text == "":
	case key.File == "":
		fmt.Fprintf(t.out,
			"The first API key, with the scope admin. The data folder cannot be written, so this key is stored nowhere else:\n%s\n", key.Text)
	default:
		fmt.Fprintf(t.out, "The first API key, with the scope admin, is stored in %s:\n%s\n", key.File, key.Text)
	}
}

// migrateCmd is the command migrate. It is for deployments that upgrade the database before they
// start new servers, for example because the servers' own user may not create tables.
type migrateCmd struct {
	config.StoreConfig `embed:""`
}

// Run brings the database up to this version.
func (c *migrateCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	if err := offline.Migrate(ctx, c.StoreConfig); err != nil {
		return err
	}
	fmt.Fprintln(t.out, "the database is up to date")
	return nil
}

// configCmd is the command config. Its commands read all settings as serve does. They open no store
// and bind no port, so they can run beside a server.
type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Print the effective settings, where each comes from, and every fault in them."`
	Print configPrintCmd `cmd:"" help:"Print the effective settings as a YAML file, with secrets masked."`
}

type configCheckCmd struct {
	config.Config `embed:""`
}

// Run prints the settings first and then the faults, so that an operator sees where a wrong value
// comes from. For a value that could not be parsed, the table has the default, and the faults name
// the value.
func (c *configCheckCmd) Run(t terminal, sources *config.Sources) error {
	rows := [][]string{}
	for _, s := range c.Settings() {
		rows = append(rows, []string{s.Name, s.Text(), sources.Origin(s.Name)})
	}
	if err := printTable(t.out, []string{"SETTING", "VALUE", "FROM"}, rows); err != nil {
		return err
	}
	return sources.Check(c.Validate)
}

type configPrintCmd struct {
	config.Config `embed:""`
}

// Run prints the settings as a file for --config. If a setting is wrong, it prints only the faults,
// because the file would have the same fault. The operator must fill in masked secrets.
func (c *configPrintCmd) Run(t terminal, sources *config.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	text, err := config.Print(c.Settings())
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(t.out, text)
	return err
}
