package store

import (
	"bytes"
	"context"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider"
)

// Finder searches a large store without an id. Its methods walk only indexes, and the
// length of each walk has a limit.
type Finder interface {
	// Find lists the objects that a text names, by FoundBy in the order of its
	// constants, and then newest first: at most q.Limit. It reads at most 1,000 names,
	// or owners of a key, and lists the newest of these.
	//
	// Names are the search terms of accounts and endpoints that begin with
	// [SearchText] of the text. Keys and ids are matched whole.
	// Of an ordering key it finds the newest event of each account.
	// Deleted accounts and endpoints are found by no name.
	Find(ctx context.Context, q FindQuery) ([]Found, error)

	// DeadLetterGroups lists the unresolved dead letters by endpoint and cause,
	// newest account first, and in it newest endpoint first.
	DeadLetterGroups(ctx context.Context, q DeadLetterGroupQuery) (Page[DeadLetterGroup], error)
}

// FindQuery asks for the objects that a text names.
type FindQuery struct {
	Account postrider.AccountID // zero: any
	Text    string
	Secret  postrider.SecretID // finds the endpoint of this secret; zero: none is asked for
	Limit   int                // at most MaxLimit
}

// FoundBy says which property of an object matches the text.
type FoundBy int

// The properties that can match, in the order of the results.
const (
	FoundBySecret         FoundBy = iota // the id of one of its secrets
	FoundByIdempotencyKey                // its idempotency key, while it is remembered
	FoundByOrderingKey                   // its ordering key
	FoundByName                          // a search term
)

// Found is an object that a text names: an event, or else an endpoint, or else an
// account.
type Found struct {
	By       FoundBy
	Account  postrider.AccountID
	Endpoint postrider.EndpointID // zero: it is no endpoint
	Event    postrider.EventID    // zero: it is no event
}

// DeadLetterGroupQuery filters groups of dead letters; a zero field does not filter.
type DeadLetterGroupQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID // needs the Account
	Paging                        // OldestFirst is not known
}

// DeadLetterGroup is the unresolved dead letters of one endpoint with one cause.
type DeadLetterGroup struct {
	Account        postrider.AccountID
	Endpoint       postrider.EndpointID
	Reason         string
	LastStatusCode int    // 0: there was no response
	LastError      string // of the last attempt; empty: there was none
	Count          int    // at most MaxGroupCount
	Oldest, Newest postrider.DeliveryID
}

// MaxGroupCount is where the count of a group stops.
const MaxGroupCount = 1000

// Bounds returns the range of the accounts and endpoints that the query selects: from one
// on, and before another. The greatest id is one of the year 10889, so it bounds all.
func (q DeadLetterGroupQuery) Bounds() (from, to DeadLetterGroup) {
	from.Account, from.Endpoint = q.Account, q.Endpoint
	switch {
	case !q.Endpoint.IsZero():
		to.Account, to.Endpoint = q.Account, NextID(q.Endpoint)
	case !q.Account.IsZero():
		to.Account = NextID(q.Account)
	default:
		to.Account = postrider.AccountID(bytes.Repeat([]byte{0xff}, 16))
	}
	return from, to
}

// The sizes of search terms.
const (
	maxTerm  = 128 // bytes of one term
	maxTerms = 8   // of one text; of a URL as many of its host and of its path
)

// AccountTerms returns the search terms of an account: its uid, and its name from
// each word on.
func AccountTerms(a postrider.Account) []string {
	if !a.DeletedAt.IsZero() {
		return nil
	}
	return distinct(append(suffixes(a.Name, wordStart), SearchText(a.UID)))
}

// EndpointTerms returns the search terms of an endpoint: its uid, its description
// from each word on, its URL from each label of the host on, and the path of its URL from
// each slash on. So "acme.com" finds https://hooks.acme.com/in, and "acme" and "/in" too.
// Terms of paths begin with the slash: many endpoints share a word like hooks, and what is
// called so is found first.
func EndpointTerms(e postrider.Endpoint) []string {
	if e.Status == postrider.EndpointDeleted {
		return nil
	}
	terms := append(suffixes(e.Description, wordStart), SearchText(e.UID))
	if u, err := url.Parse(e.URL); err == nil {
		terms = append(terms, suffixes(u.Host+u.EscapedPath(), labelStart(len(u.Host)))...)
		terms = append(terms, suffixes(u.EscapedPath(), segmentStart)...)
	}
	return distinct(terms)
}

// SearchText returns a text in the form of search terms: lower-case, clipped, and of a
// URL without its scheme and query.
func SearchText(text string) string {
	text = strings.TrimSpace(text)
	if _, rest, isURL := strings.Cut(text, "://"); isURL {
		text, _, _ = strings.Cut(rest, "?")
	}
	return clip(strings.ToLower(text))
}

// AfterTerms returns a text that is greater, byte by byte, than every term that begins
// with the given one.
func AfterTerms(text string) string { return text + string(unicode.MaxRune) }

// suffixes returns the text from each start on, at most maxTerms times.
func suffixes(text string, starts func(text string, at int) bool) (found []string) {
	for at := range text {
		if starts(text, at) && len(found) < maxTerms {
			found = append(found, SearchText(text[at:]))
		}
	}
	return found
}

// wordStart reports whether a word starts at the place.
func wordStart(text string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	first, _ := utf8.DecodeRuneInString(text[at:])
	return isWord(first) && (at == 0 || !isWord(before))
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// labelStart returns the starts of the labels of a host that is the first bytes of a
// text.
func labelStart(host int) func(string, int) bool {
	return func(text string, at int) bool { return at < host && (at == 0 || text[at-1] == '.') }
}

// segmentStart reports whether a segment of a path, with the slash before it, starts at the
// place.
func segmentStart(path string, at int) bool {
	return path[at] == '/' && at+1 < len(path) && path[at+1] != '/'
}

// clip cuts a term to maxTerm bytes, between two characters.
func clip(term string) string {
	if len(term) <= maxTerm {
		return term
	}
	term = term[:maxTerm]
	for !utf8.ValidString(term) {
		term = term[:len(term)-1]
	}
	return term
}

// distinct returns the texts without the empty ones, each once.
func distinct(texts []string) (each []string) {
	seen := map[string]bool{"": true}
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			each = append(each, text)
		}
	}
	return each
}
