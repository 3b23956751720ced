package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/postrider/postrider/apitypes"
)

// printTable prints rows in aligned columns. An empty cell is printed as a dash, so that a script
// that splits a row at blanks finds the right column. Scripts that read several columns should use
// --json.
func printTable(w io.Writer, head []string, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		if _, err := fmt.Fprintln(table, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// oneLine replaces control characters by blanks. Cells contain text of customers and receivers.
// That text must not break the table or send escape sequences to the terminal.
func oneLine(cell string) string {
	cell = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, cell)
	if strings.TrimSpace(cell) == "" {
		return "-"
	}
	return cell
}

// printJSON prints a value as indented JSON in the form of the API, so the OpenAPI document also
// describes the output of the commands. It does not escape <, > and &, so that people can copy
// URLs.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// moment returns a time for tables, in UTC and to the second. It is empty for nil and for the zero
// time. --from and --to accept this form.
func moment(at *apitypes.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05Z")
}

// optional returns the value that p points to, or the zero value for nil.
func optional[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// idText returns the text of an id; empty for the zero id. A filter that is not given must be left
// out of the request, and not be sent as ep_000….
func idText[I interface {
	IsZero() bool
	String() string
}](id I) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
