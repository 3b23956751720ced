package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
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

// moment returns a time as tables show it; none is empty.
func moment(at time.Time) string {
	if at.IsZero() {
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

// idText returns the text of an id; of none, nothing.
func idText[I fmt.Stringer](id *I) string {
	if id == nil {
		return ""
	}
	return (*id).String()
}
