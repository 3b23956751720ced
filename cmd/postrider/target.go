package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// target holds the flags of every command that calls a server.
type target struct {
	URL     string `name:"url" group:"Server" env:"POSTRIDER_URL" default:"http://127.0.0.1:8080" help:"Address of the server."`
	KeyFile string `name:"key-file" group:"Server" env:"POSTRIDER_KEY_FILE" placeholder:"FILE" help:"File that holds the API key. Default: the variable POSTRIDER_API_KEY, or else ./postrider-data/admin.key."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// defaultKeyFile is where a server with the default data folder writes the first
// admin key. The commands find it when they run in the server's directory.
const defaultKeyFile = "postrider-data/admin.key"

// connect returns a client of the server. The caller must close it. It makes no
// request yet, so a wrong address shows at the first call.
func (t target) connect() (*client.Client, error) {
	if u, err := url.Parse(t.URL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, misused("--url: must be like http://127.0.0.1:8080")
	}
	key, err := t.key()
	if err != nil {
		return nil, err
	}
	return client.New(t.URL, key, client.Options{UserAgent: "postrider-cli", Attempts: 3}), nil
}

// through calls do with a client of the server, and closes the client.
func (t target) through(do func(*client.Client) error) error {
	api, err := t.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	return do(api)
}

// key returns the API key. A missing key is a usage error that names the ways to
// give one.
func (t target) key() (string, error) {
	key, err := findKey(t.KeyFile, defaultKeyFile)
	if errors.Is(err, errNoKey) {
		return "", misused("no API key: set POSTRIDER_API_KEY, name a file with --key-file, or run where %s is", defaultKeyFile)
	}
	return key, err
}

// errNoKey says that findKey has found no API key.
var errNoKey = errors.New("no API key")

// findKey returns the API key. It looks into the file that the caller named, then
// into POSTRIDER_API_KEY, and then into the file of the first admin key. A named
// file that is missing is an error: another key could have other rights.
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

// readKey returns the API key in a file. A text with blanks inside is no key, and
// so probably the wrong file. The error does not quote it.
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

// paging holds the flags of every command that lists one page.
type paging struct {
	Limit  int    `help:"At most this many, up to 250. Default: 50."`
	Cursor string `help:"The page after the one that named this cursor."`
}

// page returns the page to ask for. The server applies its default to a zero Limit.
func (p paging) page() client.Paging { return client.Paging{Limit: p.Limit, Cursor: p.Cursor} }

// printPage prints one page of a list as JSON or as a table. The hint at the next
// page goes to stderr, so that stdout is the table alone.
func printPage[T any](t terminal, asJSON bool, page apitypes.Page[T], table tableOf[T]) error {
	if asJSON {
		page.Data = append([]T{}, page.Data...) // JSON shows an empty list as [], not null
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

// printOne prints one item as JSON, or as a table with one row.
func printOne[T any](t terminal, asJSON bool, item T, table tableOf[T]) error {
	if asJSON {
		return printJSON(t.out, item)
	}
	return printTable(t.out, table.head, [][]string{table.row(item)})
}

// tableOf describes the table of a type: the heads of its columns, and the function
// that returns the cells of one item. Both have the same length.
type tableOf[T any] struct {
	head []string
	row  func(T) []string
}

// readSource returns the contents of a file, or of stdin if the name is "-".
func readSource(t terminal, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(t.in)
	}
	return os.ReadFile(name)
}
