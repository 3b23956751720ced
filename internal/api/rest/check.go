package rest

import (
	"strings"
	"unicode"

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

// CheckUID refuses three kinds of uids: those that could be mistaken for an id, those that cannot
// stand in the path of a URL, and those with characters that change the direction of the text
// around them.
func CheckUID(uid string) error {
	switch {
	case strings.HasPrefix(uid, "acc_") || strings.HasPrefix(uid, "ep_"):
		return Invalid("uid", postrider.FaultMalformed, "must not look like an id")
	case uid == "." || uid == "..":
		return Invalid("uid", postrider.FaultMalformed, "must not be . or .., which a URL cannot end with")
	case !postrider.IsText(uid) || strings.ContainsFunc(uid, isBidiControl):
		return Invalid("uid", postrider.FaultMalformed, "must be UTF-8 without control characters")
	}
	return CheckText("uid", uid, MaxName)
}

// isBidiControl reports whether the character changes the direction of the text after it.
func isBidiControl(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// ParseID parses an id from a path. For an invalid id it returns ErrNotFound. It does so for the
// zero id too: in a query of the store, the zero id means no filter and would select everything.
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

// CheckTypeFilter refuses a filter that is not an event type. A pattern matches no event here, and
// the empty list would look like "nothing found".
func CheckTypeFilter(field, text string) error {
	if text != "" && postrider.CheckType(field, text) != nil {
		return Invalid(field, postrider.FaultMalformed, "must be one event type; patterns are for endpoints")
	}
	return nil
}

// Filtered parses an id from a query parameter. For an empty text it returns the zero id, which
// means no filter. For an invalid id it returns a fault of the parameter. An empty list would be
// wrong: a typing error must not look like "nothing found".
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
