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

// target is the server that a command talks to.
type target struct {
	URL     string `name:"url" group:"Server" env:"POSTRIDER_URL" default:"http://127.0.0.1:8080" help:"Address of the server."`
	KeyFile string `name:"key-file" group:"Server" env:"POSTRIDER_KEY_FILE" placeholder:"FILE" help:"File that holds the API key. Default: the variable POSTRIDER_API_KEY, or else ./postrider-data/admin.key."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

const defaultKeyFile = "postrider-data/admin.key"

// connect returns a client of the target.
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

// through calls the server.
func (t target) through(do func(*client.Client) error) error {
	api, err := t.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	return do(api)
}

func (t target) key() (string, error) {
	key, err := findKey(t.KeyFile, defaultKeyFile)
	if errors.Is(err, errNoKey) {
		return "", misused("no API key: set POSTRIDER_API_KEY, name a file with --key-file, or run where %s is", defaultKeyFile)
	}
	return key, err
}

// errNoKey is that there is no API key anywhere.
var errNoKey = errors.New("no API key")

// findKey returns the API key in the file that the caller named, or else in
// the environment, or else in the file of the first admin key.
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

// paging is the page of a list that a command asks for.
type paging struct {
	Limit  int    `help:"At most this many, up to 250. Default: 50."`
	Cursor string `help:"The page after the one that named this cursor."`
}

func (p paging) page() client.Paging { return client.Paging{Limit: p.Limit, Cursor: p.Cursor} }

// printPage writes one page of a list, as JSON or as a table with how to get
// the next one.
func printPage[T any](t terminal, asJSON bool, page apitypes.Page[T], table tableOf[T]) error {
	if asJSON {
		page.Data = append([]T{}, page.Data...) // never null
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

// printOne writes one item like a page of its own.
func printOne[T any](t terminal, asJSON bool, item T, table tableOf[T]) error {
	if asJSON {
		return printJSON(t.out, item)
	}
	return printTable(t.out, table.head, [][]string{table.row(item)})
}

// tableOf says how a table shows items.
type tableOf[T any] struct {
	head []string
	row  func(T) []string
}

// readSource reads a file, or stdin when its name is "-".
func readSource(t terminal, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(t.in)
	}
	return os.ReadFile(name)
}
