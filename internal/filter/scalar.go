package filter

import (
	"cmp"
	"strconv"
	"strings"
)

// A scalar is null, a boolean, a number or a string. Two scalars are the same value if and only if
// they are equal with ==.
//
// A number is ±0.text × 10^exponent, where text begins and ends with a digit that is not 0. It is
// exact. Zero has no text.
type scalar struct {
	kind     kind
	negative bool
	exponent int64
	text     string // the string, or the digits of the number
}

// maxExponent bounds the exponents of numbers, so that they cannot overflow.
const maxExponent = 1_000_000_000

// parseNumber returns the number of a valid JSON number.
func parseNumber(text string) scalar {
	n := scalar{kind: kindNumber}
	text, n.negative = strings.CutPrefix(text, "-")
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		// An error means that the exponent is too large; then it is the largest there is.
		n.exponent, _ = strconv.ParseInt(text[e+1:], 10, 64)
		n.exponent = max(-maxExponent, min(n.exponent, maxExponent))
		text = text[:e]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if fraction = strings.TrimRight(fraction, "0"); whole == "0" {
		whole = ""
	}
	n.exponent += int64(len(whole))
	n.text = whole
	switch {
	case fraction == "":
		n.text = strings.TrimRight(whole, "0")
	case whole == "":
		n.text = strings.TrimLeft(fraction, "0")
		n.exponent -= int64(len(fraction) - len(n.text))
	default:
		n.text = whole + fraction
	}
	if n.text == "" {
		return scalar{kind: kindNumber}
	}
	return n
}

// compareNumbers returns a negative number if a < b, a positive one if a > b, and 0 if they are
// equal.
func compareNumbers(a, b scalar) int {
	if a.sign() != b.sign() || a.sign() == 0 {
		return a.sign() - b.sign()
	}
	return a.sign() * cmp.Or(cmp.Compare(a.exponent, b.exponent), strings.Compare(a.text, b.text))
}

func (s scalar) sign() int {
	switch {
	case s.text == "":
		return 0
	case s.negative:
		return -1
	}
	return 1
}
