package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/config"
)

// target has the flags of every command that calls a server.
type target struct {
	URL     string `name:"url" group:"Server" env:"POSTRIDER_URL" placeholder:"URL" help:"URL of the server. Default: that of the server that runs with the data folder (POSTRIDER_DATA_DIR, or ./postrider-data), or else http://127.0.0.1:8080."`
	KeyFile string `name:"key-file" group:"Server" env:"POSTRIDER_KEY_FILE" placeholder:"FILE" help:"File with the API key. Default: the variable POSTRIDER_API_KEY, or else admin.key in the data folder: POSTRIDER_DATA_DIR, or ./postrider-data."`
	JSON    bool   `name:"json" help:"Print the result as JSON."`

	// NotEffective is called for a change that is not in effect on all servers yet. ask sets it;
	// nil: no call.
	NotEffective func(apitypes.NotEffective) `kong:"-"`
}

// dataFolder returns the data folder of a server that was started in the same directory with the
// same environment. The commands find the server's first admin key and its URL there.
func dataFolder() config.StoreConfig {
	return config.StoreConfig{DataDir: cmp.Or(os.Getenv("POSTRIDER_DATA_DIR"), "postrider-data")}
}

// address returns the URL of the server.
func (t target) address() string {
	running, _ := dataFolder().Running() // empty: no server runs here
	return cmp.Or(t.URL, running, "http://127.0.0.1:8080")
}

// connect returns a client of the server, which the caller must close. connect makes no request
// yet, so a wrong address shows at the first call.
//
// After a failure that may pass, such as a restart of the server, the client repeats a request up
// to twice. A publish has an idempotency key, so a repeated request publishes nothing twice.
func (t target) connect() (*client.Client, error) {
	address := t.address()
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, misused("--url: must be like http://127.0.0.1:8080")
	}
	if strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return nil, misused("--url: must be the server's address without a path, like %s://%s", u.Scheme, u.Host)
	}
	key, err := t.key()
	if err != nil {
		return nil, err
	}
	return client.New(address, key, client.Options{UserAgent: "postrider-cli", Attempts: 3, OnNotEffective: t.NotEffective}), nil
}

// ask makes a call to the server and prints its result. Nearly every command for a running server
// consists of one ask, with the client's method and the printer of its result.
//
// A command checks its own flags and reads its files before it calls ask. So a mistake on the
// command line exits with 2 and has changed nothing.
func ask[T any](t terminal, server target, print printer[T], call func(*client.Client) (T, error)) error {
	server.NotEffective = func(n apitypes.NotEffective) {
		fmt.Fprintf(t.err, "The change is stored. %s may still act as before, until %s at the latest.\n",
			strings.Join(n.Servers, ", "), n.Until.Format(time.TimeOnly+" MST"))
	}
	api, err := server.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	result, err := call(api)
	if err != nil {
		return err
	}
	return print(t, server.JSON, result)
}

// printer prints the result of a call, as JSON or as a text for people.
type printer[T any] func(t terminal, asJSON bool, result T) error

// change makes a call that has no result, and prints done. --json does not change the output.
func change(t terminal, server target, done string, call func(*client.Client) error) error {
	print := func(t terminal, _ bool, done string) error {
		_, err := fmt.Fprintln(t.out, done)
		return err
	}
	return ask(t, server, print, func(api *client.Client) (string, error) { return done, call(api) })
}

// key returns the API key. If there is none, it returns a usage error that names the ways to set
// one.
func (t target) key() (string, error) {
	key, err := findKey(t.KeyFile, dataFolder().KeyFile())
	if errors.Is(err, errNoKey) {
		return "", misused("no API key: set POSTRIDER_API_KEY, name a file with --key-file, or run where %s is", dataFolder().KeyFile())
	}
	return key, err
}

// errNoKey says that findKey has found no API key.
var errNoKey = errors.New("no API key")

// findKey returns the API key. It reads the file that the caller named, then POSTRIDER_API_KEY, and
// then the file of the first admin key. Because of the last one, a first try on one machine needs
// no set-up. If the named file is missing, findKey returns an error, because another key could have
// other rights.
func findKey(named, first string) (string, error) {
	if named != "" {
		return readKey(named)
	}
	if key := strings.TrimSpace(os.Getenv("POSTRIDER_API_KEY")); key != "" {
		return key, nil
	}
	key, err := readKey(first)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoKey
	}
	return key, err
}

// readKey returns the API key in a file. A text with blanks inside is no key, so the flag probably
// names another file. The error does not quote the text, which could be a secret.
func readKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read API key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsAny(key, " \r\n\t") {
		return "", misused("%s holds no API key", path)
	}
	return key, nil
}

// paging has the flags of every command that lists one page. The commands do not read further
// pages: a list of millions would never end, and a person wants the first page.
type paging struct {
	Limit  limit  `help:"Number of entries on the page, 1 to 250. Default: 50."`
	Cursor string `help:"Continue a list: the cursor that the page before printed. Default: the first page."`
}

// page returns the paging of the request. For a zero Limit the server uses its default.
func (p paging) page() client.Paging { return client.Paging{Limit: int(p.Limit), Cursor: p.Cursor} }

// limit is the number of entries of a page; 0: not given.
type limit int

// Decode reads the number. It checks the bounds here, because later a 0 would look like a flag that
// is not given.
func (l *limit) Decode(ctx *kong.DecodeContext) error {
	n, err := strconv.Atoi(ctx.Scan.Pop().String())
	if err != nil || n < 1 || n > 250 {
		return errors.New("must be 1 to 250")
	}
	*l = limit(n)
	return nil
}

// tableOf describes the table of a type: the heads of the columns, and a function that returns the
// cells of one item. Both have the same length. The methods of tableOf are the printers of
// commands.
type tableOf[T any] struct {
	head []string
	row  func(T) []string
}

// page prints one page of a list. It prints the hint about the next page to stderr, so that stdout
// has only the table.
func (table tableOf[T]) page(t terminal, asJSON bool, page apitypes.Page[T]) error {
	if asJSON {
		page.Data = append([]T{}, page.Data...) // an empty list becomes [] in JSON, not null
		return printJSON(t.out, page)
	}
	rows := make([][]string, 0, len(page.Data))
	for _, item := range page.Data {
		rows = append(rows, table.row(item))
	}
	if err := printTable(t.out, table.head, rows); err != nil {
		return err
	}
	if page.NextCursor != nil {
		fmt.Fprintln(t.err, "more with --cursor", page.Next())
	}
	return nil
}

// all prints a list that has no further pages.
func (table tableOf[T]) all(t terminal, asJSON bool, items []T) error {
	return table.page(t, asJSON, apitypes.Page[T]{Data: items})
}

// one prints a single item, as a table with one row.
func (table tableOf[T]) one(t terminal, asJSON bool, item T) error {
	if asJSON {
		return printJSON(t.out, item)
	}
	return printTable(t.out, table.head, [][]string{table.row(item)})
}

// readSource returns the contents of a file, or of stdin if the name is "-".
func readSource(t terminal, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(t.in)
	}
	return os.ReadFile(name)
}
