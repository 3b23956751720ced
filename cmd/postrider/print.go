package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// printTable writes rows in columns. An empty cell is a dash, so that scripts
// which split at blanks count right.
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

// oneLine keeps what others wrote from breaking the table or the terminal.
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

func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// moment returns a time as tables show it; no time is empty.
func moment(at *apitypes.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05Z")
}

// optional returns the value that p points to, or the zero value.
func optional[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// idText returns the text of an id; the zero id has none.
func idText(id postrider.EndpointID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
