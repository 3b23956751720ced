package api

import (
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider"
)

// The limits of texts, in bytes.
const (
	maxName        = 256
	maxDescription = 4096
)

// maxPatterns is the largest number of event type patterns of one endpoint.
const maxPatterns = 256

// checkText returns a fault if the text is longer than longest, in bytes.
func checkText(field, text string, longest int) error {
	if len(text) > longest {
		return tooLong(field, longest, "is too long")
	}
	return nil
}

// isText reports whether s is valid UTF-8 without control characters.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// checkUID refuses uids that could be mistaken for an id, that the path of a URL cannot have,
// and that turn the text around them on a page.
func checkUID(uid string) error {
	switch {
	case strings.HasPrefix(uid, "acc_") || strings.HasPrefix(uid, "ep_"):
		return invalid("uid", postrider.FaultMalformed, "must not look like an id")
	case uid == "." || uid == "..":
		return invalid("uid", postrider.FaultMalformed, "must not be . or .., which a URL cannot end with")
	case !isText(uid) || strings.ContainsFunc(uid, isBidiControl):
		return invalid("uid", postrider.FaultMalformed, "must be UTF-8 without control characters")
	}
	return checkText("uid", uid, maxName)
}

// isBidiControl reports whether the character sets the direction of the text after it.
func isBidiControl(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// patterns converts the texts without validation, which is checkEndpoint's.
func patterns(texts []string) []postrider.Pattern {
	list := make([]postrider.Pattern, 0, len(texts))
	for _, text := range texts {
		list = append(list, postrider.Pattern(text))
	}
	return list
}

// millis returns n milliseconds. A number that overflows becomes the longest or
// the shortest duration, which every policy refuses.
func millis(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// parseID parses an id from a path. An invalid id is not found. So is the zero
// id: in a query of the store it means no filter, and would select everything.
func parseID[I comparable, P interface {
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

// checkTypeFilter refuses a filter that is no event type. A pattern would match no event,
// and an empty list looks like "nothing found".
func checkTypeFilter(field, text string) error {
	if text != "" && postrider.CheckType(field, text) != nil {
		return invalid(field, postrider.FaultMalformed, "must be one event type; patterns are for endpoints")
	}
	return nil
}

// filtered parses an id from a query parameter. Empty text is no filter and
// gives the zero id. An id that is invalid is a fault of the parameter, and not
// an empty list: a filter with a typing error must not look like "nothing found".
func filtered[I comparable, P interface {
	*I
	UnmarshalText(text []byte) error
}](field, text string) (id I, err error) {
	if text == "" {
		return id, nil
	}
	var zero I
	id, err = postrider.ParseID[I, P](text)
	if err != nil || id == zero {
		return id, invalid(field, postrider.FaultNotFound, "names nothing")
	}
	return id, nil
}
