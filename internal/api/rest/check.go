package rest

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider"
)

// The limits of texts, in bytes.
const (
	MaxName        = 256
	MaxDescription = 4096
)

// MaxPatterns is the largest number of event type patterns of one endpoint.
const MaxPatterns = 256

// CheckText returns a fault if the text is longer than longest, in bytes.
func CheckText(field, text string, longest int) error {
	if len(text) > longest {
		return TooLong(field, longest, "is too long")
	}
	return nil
}

// IsText reports whether s is valid UTF-8 without control characters.
func IsText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// CheckUID refuses uids that could be mistaken for an id, that the path of a URL cannot have,
// and that turn the text around them on a page.
func CheckUID(uid string) error {
	switch {
	case strings.HasPrefix(uid, "acc_") || strings.HasPrefix(uid, "ep_"):
		return Invalid("uid", postrider.FaultMalformed, "must not look like an id")
	case uid == "." || uid == "..":
		return Invalid("uid", postrider.FaultMalformed, "must not be . or .., which a URL cannot end with")
	case !IsText(uid) || strings.ContainsFunc(uid, isBidiControl):
		return Invalid("uid", postrider.FaultMalformed, "must be UTF-8 without control characters")
	}
	return CheckText("uid", uid, MaxName)
}

// isBidiControl reports whether the character sets the direction of the text after it.
func isBidiControl(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// ParseID parses an id from a path. An invalid id is not found. So is the zero
// id: in a query of the store it means no filter, and would select everything.
func ParseID[I comparable, P interface {
	*I
	UnmarshalText(text []byte) error
}](text string) (id I, err error) {
	var zero I
	id, err = postrider.ParseID[I, P](text)
	if err != nil || id == zero {
		return id, postrider.ErrNotFound
	}
	return id, nil
}

// CheckTypeFilter refuses a filter that is no event type. A pattern would match no event,
// and an empty list looks like "nothing found".
func CheckTypeFilter(field, text string) error {
	if text != "" && postrider.CheckType(field, text) != nil {
		return Invalid(field, postrider.FaultMalformed, "must be one event type; patterns are for endpoints")
	}
	return nil
}

// Filtered parses an id from a query parameter. Empty text is no filter and
// gives the zero id. An id that is invalid is a fault of the parameter, and not
// an empty list: a filter with a typing error must not look like "nothing found".
func Filtered[I comparable, P interface {
	*I
	UnmarshalText(text []byte) error
}](field, text string) (id I, err error) {
	if text == "" {
		return id, nil
	}
	var zero I
	id, err = postrider.ParseID[I, P](text)
	if err != nil || id == zero {
		return id, Invalid(field, postrider.FaultNotFound, "names nothing")
	}
	return id, nil
}
