package text

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Percent returns a share in percent. It returns 100 % only for a share of exactly 1.
func (c *Catalogue) Percent(share float64) string {
	shown := share * 100
	if share < 1 {
		shown = min(shown, 99.9)
	}
	return c.Decimal(shown) + "\u00a0%"
}

// DurationText returns milliseconds as people type them: 90s, 7d.
func DurationText(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d > 0 && d%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// ErrNoDuration is the error of [ParseDuration]: the key of the text that says what is wrong.
var ErrNoDuration = errors.New("form.no_duration")

// ParseDuration is the inverse of DurationText. A number without a unit is seconds.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.ReplaceAll(text, " ", "")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, ErrNoDuration
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, ErrNoDuration
	}
	return d, nil
}

// Show returns a value as the language writes it.
func (c *Catalogue) Show(value any) string {
	switch value := value.(type) {
	case int:
		return c.number(int64(value))
	case int64:
		return c.number(value)
	case float64:
		return c.Decimal(value)
	case time.Duration:
		return c.Duration(value)
	}
	return fmt.Sprint(value)
}

// number returns a whole number with separators between the thousands.
func (c *Catalogue) number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "−", digits[1:]
	}
	var groups []string
	for len(digits) > 3 {
		groups = append(groups, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	groups = append(groups, digits)
	slices.Reverse(groups)
	return sign + strings.Join(groups, c.Get("format.thousands"))
}

// Decimal returns a number with at most two digits after the point.
func (c *Catalogue) Decimal(x float64) string {
	digits := strconv.FormatFloat(x, 'f', 2, 64)
	digits = strings.TrimSuffix(strings.TrimRight(digits, "0"), ".")
	whole, rest, _ := strings.Cut(digits, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return digits
	}
	shown := c.number(n)
	if n == 0 && x < 0 && rest != "" {
		shown = "−0"
	}
	if rest != "" {
		shown += c.Get("format.decimal") + rest
	}
	return shown
}

// day is the largest unit of lengths of time.
const day = 24 * time.Hour

// rounded rounds d to the precision that duration prints.
func rounded(d time.Duration) time.Duration {
	for _, from := range []struct{ length, to time.Duration }{
		{day, time.Hour},
		{time.Hour, time.Minute},
		{10 * time.Second, time.Second},
		{time.Second, 10 * time.Millisecond},
		{time.Millisecond, time.Millisecond},
	} {
		if d >= from.length {
			return d.Round(from.to)
		}
	}
	return d
}

// Duration returns a length of time in its two largest units, such as 1 h 5 min.
func (c *Catalogue) Duration(d time.Duration) string {
	if d < 0 {
		return "−" + c.Duration(-d)
	}
	d = rounded(d)
	in := func(key string, n time.Duration) string { return c.Get(key, "n", int64(n)) }
	two := func(large string, n time.Duration, small string, m time.Duration) string {
		if m == 0 {
			return in(large, n)
		}
		return in(large, n) + " " + in(small, m)
	}
	switch {
	case d < time.Millisecond && d > 0:
		return c.Get("unit.ms", "n", float64(d.Microseconds())/1000)
	case d < time.Second:
		return in("unit.ms", d/time.Millisecond)
	case d < 10*time.Second && d%time.Second != 0:
		return c.Get("unit.s", "n", d.Seconds())
	case d < time.Minute:
		return in("unit.s", d/time.Second)
	case d < time.Hour:
		return two("unit.min", d/time.Minute, "unit.s", d%time.Minute/time.Second)
	case d < day:
		return two("unit.h", d/time.Hour, "unit.min", d%time.Hour/time.Minute)
	}
	return two("unit.d", d/day, "unit.h", d%day/time.Hour)
}

// Measured returns a length of time that was measured in whole milliseconds: 0 is less than one.
func (c *Catalogue) Measured(ms int64) string {
	if ms == 0 {
		return c.Get("unit.below_ms")
	}
	return c.Duration(time.Duration(ms) * time.Millisecond)
}

// Relative returns how far an instant is from now: 5 min ago, or in 5 min.
func (c *Catalogue) Relative(at, now time.Time) string {
	d := at.Sub(now)
	switch {
	case d > -time.Second && d < time.Second:
		return c.Get("time.now")
	case d < 0:
		return c.Get("time.ago", "span", c.rough(-d))
	}
	return c.Get("time.in", "span", c.rough(d))
}

// spanUnit is a unit of relative times: s, min, h or d.
type spanUnit struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // in seconds
	End  int64  `json:"end"`  // the number from which on the next unit is used; 0: none follows
}

// SpanUnits are the units of relative times, the smallest first. A number is rounded and at least
// 2 of its unit, so the rounding error stays small: 119 min, then 2 h. The layout passes the
// units to app.js, which updates relative times by the same rule.
var SpanUnits = []spanUnit{{"s", 1, 120}, {"min", 60, 120}, {"h", 3600, 48}, {"d", 86400, 0}}

// rough returns a length of time in one unit.
func (c *Catalogue) rough(d time.Duration) string {
	for _, unit := range SpanUnits {
		size := time.Duration(unit.Size) * time.Second
		if n := int64(d.Round(size) / size); n < unit.End || unit.End == 0 {
			return c.Get("unit."+unit.Name, "n", n)
		}
	}
	return ""
}

// Deref returns the value that a pointer points to; for nil, an empty string.
func Deref(p any) any {
	value := reflect.ValueOf(p)
	if value.Kind() != reflect.Pointer {
		return p
	}
	if value.IsNil() {
		return ""
	}
	return value.Elem().Interface()
}

// Bytes returns a number of bytes in a readable unit.
func (c *Catalogue) Bytes(n int) string {
	switch {
	case n < 1<<10:
		return c.number(int64(n)) + " B"
	case n < 1<<20:
		return c.Decimal(float64(n*10>>10)/10) + " KiB"
	}
	return c.Decimal(float64(n*10>>20)/10) + " MiB"
}
