// Package payload shows JSON of any size and depth in a page of bounded size.
package payload

import (
	"bytes"
	"embed"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Templates has the partial "payload", whose dot is a [Payload].
//
//go:embed *.html
var Templates embed.FS

// The limits of a payload on a page. The page has a bounded number of elements for any payload,
// so that no browser freezes. The download has the whole payload.
const (
	maxNodes  = 1000     // values of JSON
	maxDepth  = 32       // of JSON values in each other
	maxLexeme = 2 << 10  // bytes of one value
	MaxRaw    = 64 << 10 // bytes of the raw text
	manyNodes = 100      // beyond it only the outermost values are unfolded at first
	maxMarks  = 1000     // marked hits; all are counted
)

// Payload is JSON as a page shows it.
type Payload struct {
	Root *node  // nil: it is shown raw
	Raw  string // nil Root: the beginning of the text
	Cut  bool   // not all of it is on the page
	Size int    // bytes of the whole text
	Find string // what is looked for; empty: nothing
	Hits int    // how often the whole text contains Find
}

// node is one value of JSON.
type node struct {
	Key      []piece // as it is written, with its quotes; nil: the value has none
	Text     []piece // of a value without parts, as it is written
	Open     string  // { or [; empty: the value has no parts
	Close    string  // } or ]
	Parts    []*node
	Size     int  // number of the parts
	Clipped  bool // the parts, or the rest of the text, are left out
	Unfolded bool
}

// piece is a part of a text. Hit: it is what is looked for.
type piece struct {
	Text string
	Hit  bool
}

// New returns JSON for a page and marks the hits of find, in upper or lower case. If raw is true,
// the page shows the text unchanged.
func New(data []byte, find string, raw bool) Payload {
	p := Payload{Size: len(data), Find: find}
	if find != "" {
		p.Hits = strings.Count(strings.ToLower(string(data)), strings.ToLower(find))
	}
	r := &reader{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), find: strings.ToLower(find)}
	r.decoder.UseNumber()
	if !raw {
		if root, err := r.value(0); err == nil {
			p.Root, p.Cut = root, r.cut
			root.Unfolded = true
			if r.nodes <= manyNodes {
				unfold(root)
			}
			return p
		}
	}
	p.Raw, p.Cut = Clip(string(data), MaxRaw)
	return p
}

// unfold shows the parts of a value, and of its parts.
func unfold(n *node) {
	n.Unfolded = true
	for _, part := range n.Parts {
		unfold(part)
	}
}

// reader reads JSON into nodes. Each value keeps its text from the data, so that numbers and
// escapes are shown as they were published.
type reader struct {
	data    []byte
	decoder *json.Decoder
	find    string // in lower case
	nodes   int
	marks   int // pieces that are hits
	cut     bool
}

// token reads the next token, and returns its text.
func (r *reader) token() (json.Token, string, error) {
	from := r.decoder.InputOffset()
	t, err := r.decoder.Token()
	return t, strings.TrimLeft(string(r.data[from:r.decoder.InputOffset()]), " \t\r\n,:"), err
}

// value reads one value with its parts.
func (r *reader) value(depth int) (*node, error) {
	r.nodes++
	token, text, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &node{}
	delim, compound := token.(json.Delim)
	if !compound {
		n.Text, n.Clipped = r.pieces(text)
		n.Unfolded = hit(n.Text)
		r.cut = r.cut || n.Clipped
		return n, nil
	}
	n.Open, n.Close = delim.String(), map[json.Delim]string{'{': "}", '[': "]"}[delim]
	for ; r.decoder.More(); n.Size++ {
		if err := r.part(n, depth+1); err != nil {
			return nil, err
		}
	}
	_, _, err = r.token()
	return n, err
}

// part reads the next part of a value. It skips a part that is too deep, or beyond maxNodes.
func (r *reader) part(n *node, depth int) error {
	var key []piece
	if n.Open == "{" {
		_, text, err := r.token()
		if err != nil {
			return err
		}
		key, _ = r.pieces(text)
	}
	if r.nodes >= maxNodes || depth > maxDepth {
		n.Clipped, r.cut = true, true
		var skipped json.RawMessage
		return r.decoder.Decode(&skipped)
	}
	part, err := r.value(depth)
	if err != nil {
		return err
	}
	part.Key = key
	n.Parts = append(n.Parts, part)
	n.Unfolded = n.Unfolded || part.Unfolded || hit(key)
	return nil
}

// pieces splits a text at the hits of find, and reports whether the end of the text is left out.
func (r *reader) pieces(text string) (pieces []piece, clipped bool) {
	text, clipped = Clip(text, maxLexeme)
	lower := strings.ToLower(text)
	for r.find != "" && r.marks < maxMarks && len(lower) == len(text) { // with other lengths, a place in lower is another place in text
		at := strings.Index(lower, r.find)
		if at < 0 {
			break
		}
		r.marks++
		end := at + len(r.find)
		pieces = append(pieces, piece{Text: text[:at]}, piece{text[at:end], true})
		text, lower = text[end:], lower[end:]
	}
	return append(pieces, piece{Text: text}), clipped
}

func hit(pieces []piece) bool { return len(pieces) > 1 }

// Clip returns the first bytes of a text, up to a whole character, and whether there
// are more.
func Clip(text string, most int) (string, bool) {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "\uFFFD"), false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return strings.ToValidUTF8(text[:most], "\uFFFD"), true
}
