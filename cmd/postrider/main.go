// Command postrider delivers webhooks. It runs the server, and it is also the command line for a
// running server.
//
//	postrider serve                      SQLite in ./postrider-data, the API on 127.0.0.1:8080
//	postrider send order.created '{}' --account acme
//	postrider deliveries list --status dead
//	postrider replay dlv_…
//
// It promises to scripts:
//
//   - The exit code is 0 for success. It is 2 if the program refused the command line
//     or the configuration before it sent a request or opened a store, so nothing was
//     done. It is 1 if the server refused the request, or if something failed.
//   - Results go to stdout, as a table or, with --json, as JSON. Errors and the
//     server's log go to stderr.
//   - No flag holds a secret, because other users of the machine can read command
//     lines. Keys and secrets come from the environment, a file or stdin.
//   - The first SIGTERM or SIGINT ends a server gracefully, the second one at once.
//
// Each command is a struct. Its fields are the flags and arguments, which kong fills, and kong
// calls its method Run. Most commands turn their flags into a request of package client and print
// the response; see ask. The commands that run a server or open a store use package app.
//
// A command that calls a server uses these files:
//
//   - main.go parses the command line and turns errors into texts and exit codes.
//   - target.go finds the server and the key, makes the call and prints lists.
//   - policy.go and connection.go map flags to the options of an endpoint, and
//     details.go maps the options back to text, in the form of the flags.
//   - faults.go translates faults from the server into the names of flags.
//   - Each group of commands has a file for the rest.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/config"
)

// cli is the command line. kong reads the commands and their help from the tags.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run the server."`
	Demo    demoCmd    `cmd:"" help:"Run a server with failing receivers and sample events, in a temporary folder."`
	Migrate migrateCmd `cmd:"" help:"Create or upgrade the database's tables. serve does so at its start."`
	Config  configCmd  `cmd:"" help:"Check and print the configuration."`
	Doctor  doctorCmd  `cmd:"" help:"Check the settings, the database, the disk and the network of a server, and say what to change."`
	Ready   readyCmd   `cmd:"" help:"Ask whether the server of this machine should get traffic."`
	Keys    keysCmd    `cmd:"" help:"Make, list and revoke API keys, directly in the store."`
	Secrets secretsCmd `cmd:"" help:"Rotate and export the keys that encrypt secrets at rest."`
	Backup  backupCmd  `cmd:"" help:"Copy the SQLite store into a file, also while a server runs on it."`
	Restore restoreCmd `cmd:"" help:"Make a SQLite store of a backup. It starts held."`
	Hold    holdCmd    `cmd:"" help:"Hold a restored PostgreSQL database, so that nothing of it is sent."`
	Archive archiveCmd `cmd:"" help:"Read the archive of what retention has deleted: list, verify, search, restore."`
	Resume  resumeCmd  `cmd:"" help:"Send again after a restore, once you know what may repeat."`
	Outbox  outboxCmd  `cmd:"" help:"Install the outbox in a producer's PostgreSQL, so that it publishes in its own transactions."`

	Accounts           accountsCmd     `cmd:"" help:"Work with accounts."`
	EventTypes         eventTypesCmd   `cmd:"" help:"Work with the catalogue of event types."`
	Send               sendCmd         `cmd:"" help:"Publish an event."`
	Events             eventsCmd       `cmd:"" help:"List events, replay them, and publish a file of events."`
	Endpoints          endpointsCmd    `cmd:"" help:"Work with endpoints."`
	Deliveries         deliveriesCmd   `cmd:"" help:"List, cancel and release deliveries."`
	DeadLetters        deadLettersCmd  `cmd:"" help:"List, replay and discard dead letters."`
	Nodes              nodesCmd        `cmd:"" help:"List the servers that share the store."`
	Search             searchCmd       `cmd:"" help:"Find an object by its id, a key, or a part of its name or host."`
	Expunge            expungeCmd      `cmd:"" help:"Remove an event, an endpoint or an account for good, with all that is stored about it."`
	Replays            replaysCmd      `cmd:"" help:"Replay or discard many deliveries at a pace, and watch it."`
	Portal             portalCmd       `cmd:"" help:"Make links to the customer portal, and change how it looks."`
	Sessions           sessionsCmd     `cmd:"" help:"List and revoke the sessions of the pages."`
	Audit              auditCmd        `cmd:"" help:"List who changed, replayed, tested or looked at what, newest first."`
	Sources            sourcesCmd      `cmd:"" help:"Read events from the outboxes of producers, and work with the rows that were rejected."`
	Replay             replayCmd       `cmd:"" help:"Deliver again: a delivery, or an event to all its endpoints."`
	NoticeDestinations destinationsCmd `cmd:"" name:"notice-destinations" help:"Say where notices are sent: email addresses and Slack-compatible webhooks."`
	Notices            noticesCmd      `cmd:"" help:"List what people should know, newest first: endpoints that fail or were disabled, replays that have finished."`

	Stats statsCmd `cmd:"" help:"Show how many deliveries succeed, how long they take, and what waits."`

	Verify     verifyCmd     `cmd:"" help:"Verify the signature of a received webhook."`
	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
	Complete   completeCmd   `cmd:"" name:"__complete" hidden:"" passthrough:""`
	Version    versionCmd    `cmd:"" help:"Print the version."`

	ShowVersion versionFlag `name:"version" help:"Print the version."`
}

// terminal has the streams of a command, so that tests can replace them.
type terminal struct {
	// in is the file named "-". A command reads it at most once.
	in io.Reader
	// out gets results; err gets errors, hints and logs.
	out, err io.Writer
}

// live reports whether the output is a terminal. If it is a file or a pipe, a command must not move
// the cursor.
func (t terminal) live() bool {
	file, ok := t.out.(*os.File)
	if !ok {
		return false
	}
	stat, err := file.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // after it, a second signal ends the process at once
	log.SetOutput(io.Discard)    // net/http logs unexpected bytes of receivers to package log
	os.Exit(run(ctx, os.Args[1:], terminal{os.Stdin, os.Stdout, os.Stderr}))
}

// newParser returns the parser of command lines. run adds options that bind the sources of
// settings. Tests that only read the commands need no options.
func newParser(t terminal, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(new(cli), append([]kong.Option{
		kong.Name("postrider"),
		kong.Description("Postrider delivers webhooks."),
		kong.Writers(t.out, t.err),
		kong.ValueFormatter(config.HelpText),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	}, more...)...)
}

// run executes a command line and returns the exit code. It is main without the process, so that
// tests can call it.
//
// The value of a flag comes from the first source that has one: the command line, the environment,
// the file of --config, the default. kong parses the command line and applies the defaults;
// [app.Sources] resolves the other two. Then kong calls Run of the selected command with the bound
// values.
func run(ctx context.Context, args []string, t terminal) int {
	sources := config.NewSources(os.Environ())
	parser, err := newParser(t, kong.Resolvers(sources), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(t, sources))
	if err != nil {
		fmt.Fprintln(t.err, "postrider:", err)
		return 1
	}
	parsed, err := parser.Parse(args)
	// kong calls Resolve only for flags that are settings. For a command without such flags, the
	// names of the variables are not checked yet.
	if err == nil && !readsNoSetting(parsed) {
		err = sources.CheckVariables()
	}
	if err == nil {
		err = resolve(ctx, parsed)
	}
	if err == nil {
		err = parsed.Run()
	}
	if err != nil {
		fmt.Fprintln(t.err, "postrider:", explain(err, flagNamesOf(parsed)))
	}
	return exitCode(err)
}

// resolve looks up the arguments of the command on the server, for commands that accept other names
// than ids.
func resolve(ctx context.Context, parsed *kong.Context) error {
	node := parsed.Selected()
	if node == nil {
		return nil
	}
	named, is := reflect.TypeAssert[interface {
		resolve(ctx context.Context) error
	}](node.Target.Addr())
	if !is {
		return nil
	}
	return named.resolve(ctx)
}

// noSettings marks a command that reads no setting, such as version. A misspelt POSTRIDER_*
// variable does not stop such a command.
type noSettings struct{}

// readsNoSetting reports whether the parsed command is marked with noSettings.
func readsNoSetting(parsed *kong.Context) bool {
	node := parsed.Selected()
	if node == nil {
		return false
	}
	_, is := reflect.TypeAssert[interface{ hasNoSettings() }](reflect.Indirect(node.Target))
	return is
}

func (noSettings) hasNoSettings() {}

// usageError says that a command line is wrong although kong could parse it, such as two flags that
// contradict each other. The exit code is 2.
type usageError struct{ reason string }

func (e *usageError) Error() string { return e.reason }

// misused returns a usageError. Its text starts with the wrong flag or argument.
func misused(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// exitCode returns the exit code for an error. No other function decides the exit code. Scripts
// rely on the difference: after 2 a repetition is useless until the command line is corrected,
// after 1 it may succeed.
func exitCode(err error) int {
	var (
		parse *kong.ParseError
		usage *usageError
		fault *config.Fault
	)
	switch {
	case err == nil:
		return 0
	// Nothing was done: kong, a command or a check of the settings refused the input.
	case errors.As(err, &parse), errors.As(err, &usage), errors.As(err, &fault):
		return 2
	}
	return 1
}

// explain returns the text of an error for a person. If there is an obvious next step, the text
// ends with it. explain names the flags of the command, not the fields of the API.
func explain(err error, command flagNames) string {
	var (
		parse   *kong.ParseError
		fault   *config.Fault
		problem *client.Error
	)
	// The first case that fits decides, so special cases are before general ones. A command without
	// --key-file, such as keys create, calls a server only if the server has the store open. Its
	// key has other sources, so its advice differs.
	switch text := err.Error(); {
	case errors.As(err, &parse):
		return cmp.Or(withoutFlag(parse), choices.Replace(text)) + "\n" + helpHint(parse)
	case errors.As(err, &fault):
		return "the configuration is wrong:\n  " + strings.ReplaceAll(text, "\n", "\n  ")
	case errors.As(err, &problem) && problem.Status == 401 && command.flags["key-file"]:
		return text + "\nThe server does not accept this API key. Set another with POSTRIDER_API_KEY or --key-file."
	case errors.As(err, &problem) && problem.Status == 401:
		return text +
			"\nThe server does not accept this API key. Set another with POSTRIDER_API_KEY or POSTRIDER_KEY_FILE, or in admin.key of the data folder."
	case errors.As(err, &problem) && problem.Status == 403:
		return text + "\nThe API key lacks a scope. Make another key with: postrider keys create"
	case errors.As(err, &problem) && len(problem.Fields) > 0:
		return command.faults(problem.Fields)
	case errors.As(err, &problem) && problem.Status == 409:
		return text + command.nextStep(problem)
	case errors.As(err, &problem) && problem.Code == "source_unusable":
		return text + "\nA password comes from --password-file or PGPASSWORD, certificates from --ca. With --no-check the source is stored all the same."
	case command.flags["url"] && isForeign(err):
		return text + "\nThe response is not one of Postrider's API. Do --url and POSTRIDER_URL name the API, and not the port for operators?"
	case errors.As(err, &problem) && problem.Status == 429 && problem.RetryAfter > 0:
		return fmt.Sprintf("%s\nTry again in %.0f s.", text, problem.RetryAfter.Seconds())
	case errors.Is(err, syscall.ECONNREFUSED) && command.flags["url"]:
		return text + "\nIs the server running? Its address comes from --url or POSTRIDER_URL."
	default:
		return text
	}
}

// isForeign reports whether the response is one that no API of Postrider gives. That is an error
// response below 500 without a code, or a success that is not JSON. A proxy that reached no server
// responds with 500 or more.
func isForeign(err error) bool {
	if problem, ok := errors.AsType[*client.Error](err); ok {
		return problem.Code == "" && problem.Status < 500
	}
	_, ok := errors.AsType[*json.SyntaxError](err)
	return ok
}

// choices removes the empty choice from the parser's errors. Enums have an empty choice as the value
// of a flag that is not given.
var choices = strings.NewReplacer(`must be one of "",`, "must be one of ")

// withoutFlag returns the text of an error of an unknown flag that has the name of an argument of the command. It is
// empty for other errors.
func withoutFlag(err *kong.ParseError) string {
	if node := err.Context.Selected(); node != nil {
		for _, p := range node.Positional {
			if strings.HasPrefix(err.Error()+",", "unknown flag --"+p.Name+",") {
				return "unknown flag --" + p.Name + ": give the argument " + p.Summary() + " without it"
			}
		}
	}
	return ""
}

// helpHint returns a line that names the help of the command that failed.
func helpHint(err *kong.ParseError) string {
	command := "postrider"
	if node := err.Context.Selected(); node != nil {
		command = node.FullPath()
	}
	return "Run " + command + " --help for its flags and arguments."
}
