// Command postrider delivers webhooks: it runs the server, and it is the
// command line of a server that runs.
//
//	postrider serve                      SQLite in ./postrider-data, the API on 127.0.0.1:8080
//	postrider send order.created '{}' --account acme
//	postrider deliveries list --status dead
//	postrider replay dlv_…
//
// What scripts may rely on:
//
//   - It exits with 0 when all went well, 1 when something failed, 2 when the
//     command line or the configuration is wrong; nothing was done then.
//   - Results go to stdout, as a table or, with --json, as JSON; everything
//     else, errors and the server's log, goes to stderr.
//   - No secret is taken from a flag, where other users of a machine can read
//     it: keys and secrets come from the environment, a file or stdin.
//   - SIGTERM and SIGINT end a server gracefully; the second one at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/app"
)

// cli is the command line.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run the server."`
	Demo    demoCmd    `cmd:"" help:"Run a server with receivers that misbehave and traffic to watch, in a temporary folder."`
	Migrate migrateCmd `cmd:"" help:"Bring the database up to this version. serve does so by itself."`
	Config  configCmd  `cmd:"" help:"Look at the configuration."`
	Keys    keysCmd    `cmd:"" help:"Make, list and revoke API keys, straight on the store."`
	Secrets secretsCmd `cmd:"" help:"Rotate and export the keys that encrypt secrets at rest."`

	Accounts    accountsCmd    `cmd:"" help:"Work with accounts."`
	EventTypes  eventTypesCmd  `cmd:"" help:"Work with the catalogue of event types."`
	Send        sendCmd        `cmd:"" help:"Publish an event."`
	Events      eventsCmd      `cmd:"" help:"Look at events, replay them, and publish a file of them."`
	Endpoints   endpointsCmd   `cmd:"" help:"Work with endpoints."`
	Deliveries  deliveriesCmd  `cmd:"" help:"Look at deliveries and cancel them."`
	DeadLetters deadLettersCmd `cmd:"" help:"Look at dead letters, replay and discard them."`
	Replay      replayCmd      `cmd:"" help:"Deliver again: one delivery, or an event to all its endpoints."`

	Verify     verifyCmd     `cmd:"" help:"Check the signature of a webhook that was received."`
	Completion completionCmd `cmd:"" help:"Print a script that lets a shell complete this command line."`
	Complete   completeCmd   `cmd:"" name:"__complete" hidden:"" passthrough:""`
	Version    versionCmd    `cmd:"" help:"Print the version."`

	ShowVersion versionFlag `name:"version" help:"Print the version."`
}

// terminal is where a command reads from and writes to.
type terminal struct {
	in       io.Reader
	out, err io.Writer
}

// live reports whether a person watches the output.
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
	context.AfterFunc(ctx, stop) // a second signal kills at once
	log.SetOutput(io.Discard)    // net/http writes to it what receivers send unasked
	os.Exit(run(ctx, os.Args[1:], terminal{os.Stdin, os.Stdout, os.Stderr}))
}

// newParser returns the parser of command lines.
func newParser(t terminal, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(new(cli), append([]kong.Option{
		kong.Name("postrider"),
		kong.Description("Postrider delivers webhooks."),
		kong.Writers(t.out, t.err),
		kong.ValueFormatter(app.HelpText),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	}, more...)...)
}

func run(ctx context.Context, args []string, t terminal) int {
	sources := app.NewSources(os.Environ())
	parser, err := newParser(t, kong.Resolvers(sources), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(t, sources))
	if err != nil {
		fmt.Fprintln(t.err, "postrider:", err)
		return 1
	}
	parsed, err := parser.Parse(args)
	if err == nil && !isAside(parsed) {
		err = sources.CheckVariables()
	}
	if err == nil {
		err = parsed.Run()
	}
	if err != nil {
		fmt.Fprintln(t.err, "postrider:", explain(err, wordsOf(parsed)))
	}
	return exitCode(err)
}

// aside are the commands that read no variable, so that a wrong one does not
// stop them.
type aside struct{}

func isAside(parsed *kong.Context) bool {
	node := parsed.Selected()
	if node == nil {
		return false
	}
	_, is := reflect.TypeAssert[interface{ isAside() }](reflect.Indirect(node.Target))
	return is
}

func (aside) isAside() {}

// usageError is a command line that cannot be carried out.
type usageError struct{ reason string }

func (e *usageError) Error() string { return e.reason }

func misused(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// exitCode is the only place where an error becomes an exit code.
func exitCode(err error) int {
	var (
		parse *kong.ParseError
		usage *usageError
		fault *app.Fault
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &parse), errors.As(err, &usage), errors.As(err, &fault):
		return 2
	}
	return 1
}

// explain returns the error's text with what a person may do about it, in the
// words of the command.
func explain(err error, command words) string {
	var (
		parse   *kong.ParseError
		fault   *app.Fault
		problem *client.Error
	)
	switch text := err.Error(); {
	case errors.As(err, &parse):
		return choices.Replace(text) + "\n" + helpHint(parse)
	case errors.As(err, &fault):
		return "the configuration is wrong:\n  " + strings.ReplaceAll(text, "\n", "\n  ")
	case errors.As(err, &problem) && problem.Status == 401 && command.flags["key-file"]:
		return text + "\nThe server does not know this API key; see POSTRIDER_API_KEY and --key-file."
	case errors.As(err, &problem) && problem.Status == 401:
		return text + "\nThe server does not know this API key; see POSTRIDER_API_KEY, POSTRIDER_KEY_FILE and admin.key of the data folder."
	case errors.As(err, &problem) && problem.Status == 403:
		return text + "\nThe API key lacks a scope; make another with: postrider keys create"
	case errors.As(err, &problem) && problem.Status == 422 && len(problem.Fields) > 0:
		return command.faults(problem.Fields)
	case errors.As(err, &problem) && problem.Status == 429 && problem.RetryAfter > 0:
		return fmt.Sprintf("%s\nTry again in %.0f s.", text, problem.RetryAfter.Seconds())
	case errors.Is(err, syscall.ECONNREFUSED) && command.flags["url"]:
		return text + "\nIs the server running? Its address is that of --url or POSTRIDER_URL."
	default:
		return text
	}
}

// choices takes the empty choice, which is that the flag is not given, out of
// what the parser says.
var choices = strings.NewReplacer(`must be one of "",`, "must be one of ")

func helpHint(err *kong.ParseError) string {
	command := "postrider"
	if node := err.Context.Selected(); node != nil {
		command = node.FullPath()
	}
	return "Run " + command + " --help for what it takes."
}
