package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider"
)

// Finder finds objects in a large store without their ids. Its methods walk only indexes, and the
// length of each walk is limited.
type Finder interface {
	// Find lists the objects that match a text, at most q.Limit. They are ordered by FoundBy, in the
	// order of its constants, and then newest first. Find reads at most 1,000 names, or owners of a
	// key, and lists the newest of these.
	//
	// A name matches if a search term of the account or endpoint begins with the [SearchText] of the
	// text. Keys and ids must be equal to the text.
	// For an ordering key, Find returns the newest event of each account.
	// Deleted accounts and endpoints are not found by name.
	Find(ctx context.Context, q FindQuery) ([]Found, error)

	// FindEvents lists the events that were published with one of the terms, newest first. With
	// OldestFirst they are oldest first. An event that DeleteOld keeps for a delivery may be missing.
	FindEvents(ctx context.Context, q TermQuery) (Page[postrider.EventID], error)

	// DeadLetterGroups lists the unresolved dead letters, grouped by endpoint and cause. The newest
	// account comes first, and within an account the newest endpoint. A cursor of an account or
	// endpoint that the query does not select selects nothing.
	DeadLetterGroups(ctx context.Context, q DeadLetterGroupQuery) (Page[DeadLetterGroup], error)
}

// FindQuery asks for the objects that match a text.
type FindQuery struct {
	Account postrider.AccountID // zero: any
	Text    string
	Secret  postrider.SecretID // finds the endpoint with this secret; zero: finds none
	Limit   int                // at most MaxLimit
}

// FoundBy says which property of an object matched the text.
type FoundBy int

// The properties that can match, in the order of the results.
const (
	FoundBySecret         FoundBy = iota // the id of one of the endpoint's secrets
	FoundByIdempotencyKey                // the idempotency key of the event, as long as the key is stored
	FoundByOrderingKey                   // the ordering key of the event
	FoundByName                          // a search term of the account or endpoint
)

// Found is an object that matched: an event, an endpoint or an account.
type Found struct {
	By       FoundBy
	Account  postrider.AccountID
	Endpoint postrider.EndpointID // zero unless the object is an endpoint
	Event    postrider.EventID    // zero unless the object is an event
}

// DeadLetterGroupQuery filters groups of dead letters; a zero field does not filter.
type DeadLetterGroupQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID // needs the Account
	Paging                        // OldestFirst is ignored
}

// DeadLetterGroup stands for the unresolved dead letters of one endpoint with the same cause.
type DeadLetterGroup struct {
	Account        postrider.AccountID
	Endpoint       postrider.EndpointID
	Reason         string
	LastStatusCode int    // 0 if there was no response
	LastError      string // error of the last attempt; empty if there was none
	Count          int    // at most MaxGroupCount
	Oldest, Newest postrider.DeliveryID
}

// MaxGroupCount is the greatest value of Count in a [DeadLetterGroup].
const MaxGroupCount = 1000

// Bounds returns the range of accounts and endpoints that the query selects: from is the first,
// and to is beyond the last. The greatest possible id, which ends the range of all accounts, has
// a time in the year 10889.
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

// These constants limit search terms.
const (
	maxTerm  = 128 // bytes of one term
	maxTerms = 8   // terms of one text; a URL has as many for its host and as many for its path
)

// AccountTerms returns the search terms of an account: its uid, and for each word of its name the
// rest of the name from that word on.
func AccountTerms(a postrider.Account) []string {
	if !a.DeletedAt.IsZero() {
		return nil
	}
	return distinct(append(suffixes(a.Name, wordStart), SearchText(a.UID)))
}

// EndpointTerms returns the search terms of an endpoint:
//
//   - its uid
//   - its description, from each word on
//   - its URL, from each label of the host on
//   - the path of its URL, from each slash on
//
// So "acme.com", "acme" and "/in" all find https://hooks.acme.com/in. Terms of paths begin with
// the slash, because many endpoints have a path with a common word like hooks. A search for such
// a word should first find the endpoints that have it in their name.
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

// MetadataTerms returns a search term for each key of the metadata, with its value. A list that
// filters by metadata walks them. A term is a hash, so it is short whatever the value is. No text that
// people search for begins with the control character that it begins with, or with the kind of its
// object.
func MetadataTerms(kind MetadataOf, m postrider.Metadata) (terms []string) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		sum := sha256.Sum256([]byte(key + "\x00" + m[key])) // a key has no control characters
		terms = append(terms, string(kind)+hex.EncodeToString(sum[:16]))
	}
	return terms
}

// MetadataOf is the kind of object that metadata belongs to, as its terms begin with it.
type MetadataOf string

// The kinds of objects that have metadata.
const (
	MetadataOfAccount  MetadataOf = "\x01a"
	MetadataOfEndpoint MetadataOf = "\x01e"
)

// SearchText returns a text in the form of search terms: lower-case and clipped. A URL loses its
// scheme and its query.
func SearchText(text string) string {
	text = strings.TrimSpace(text)
	if _, rest, isURL := strings.Cut(text, "://"); isURL {
		text, _, _ = strings.Cut(rest, "?")
	}
	return clip(strings.ToLower(text))
}

// AfterTerms returns a text that is greater, compared byte by byte, than every term that begins
// with the given text.
func AfterTerms(text string) string { return text + string(unicode.MaxRune) }

// suffixes returns, for each of the first maxTerms starts, the search term from that start to the
// end of the text.
func suffixes(text string, starts func(text string, at int) bool) (found []string) {
	for at := range text {
		if starts(text, at) && len(found) < maxTerms {
			found = append(found, SearchText(text[at:]))
		}
	}
	return found
}

// wordStart reports whether a word starts at the position.
func wordStart(text string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	first, _ := utf8.DecodeRuneInString(text[at:])
	return isWord(first) && (at == 0 || !isWord(before))
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// labelStart returns a function that reports whether a label of the host starts at the position.
// The host is the first bytes of the text.
func labelStart(host int) func(string, int) bool {
	return func(text string, at int) bool { return at < host && (at == 0 || text[at-1] == '.') }
}

// segmentStart reports whether a segment of a path starts at the position. A segment begins with
// its slash.
func segmentStart(path string, at int) bool {
	return path[at] == '/' && at+1 < len(path) && path[at+1] != '/'
}

// clip shortens a term to at most maxTerm bytes, without cutting a character.
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

// distinct returns each text once, without the empty one.
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
