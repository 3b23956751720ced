package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed text/*.json
var textFiles embed.FS

// texts has the catalogue of each language. A language is one file of the folder
// text: its texts by key. A text has its arguments as {name}. A text that depends
// on a number is an object with the forms one and other; the argument n decides.
type texts struct {
	catalogues map[string]*catalogue // by language
	languages  []string              // sorted; English is the default
}

// catalogue has the texts of one language.
type catalogue struct {
	Language string
	texts    map[string]text
	missing  func(key string) // called for a key without a text; nil in production
}

// text is one text of a catalogue, in the forms that the language has.
type text struct{ one, other string }

// UnmarshalJSON reads a text, or its two forms.
func (t *text) UnmarshalJSON(from []byte) error {
	if from[0] == '"' {
		if err := json.Unmarshal(from, &t.other); err != nil {
			return err
		}
		t.one = t.other
		return nil
	}
	var forms struct{ One, Other string }
	err := json.Unmarshal(from, &forms)
	t.one, t.other = forms.One, forms.Other
	return err
}

// newTexts reads the catalogues that the program was built with.
func newTexts() *texts {
	all := &texts{catalogues: map[string]*catalogue{}}
	files, err := textFiles.ReadDir("text")
	if err != nil {
		panic(fmt.Errorf("read catalogues: %w", err))
	}
	for _, file := range files {
		content, err := textFiles.ReadFile("text/" + file.Name())
		if err != nil {
			panic(fmt.Errorf("read catalogue: %w", err))
		}
		c := &catalogue{Language: strings.TrimSuffix(file.Name(), path.Ext(file.Name()))}
		if err := json.Unmarshal(content, &c.texts); err != nil {
			panic(fmt.Errorf("catalogue %s: %w", file.Name(), err))
		}
		all.catalogues[c.Language] = c
	}
	all.languages = slices.Sorted(maps.Keys(all.catalogues))
	return all
}

// choose returns the catalogue of the first wish that there is one for, else the
// English one. A wish is a language like de or de-AT, or an Accept-Language.
func (t *texts) choose(wishes ...string) *catalogue {
	for _, wish := range wishes {
		for language := range strings.SplitSeq(wish, ",") { // browsers send the preferred language first
			language, _, _ = strings.Cut(strings.TrimSpace(language), ";")
			language, _, _ = strings.Cut(language, "-")
			if c, ok := t.catalogues[strings.ToLower(language)]; ok {
				return c
			}
		}
	}
	return t.catalogues["en"]
}

// has reports whether the catalogue has the key.
func (c *catalogue) has(key string) bool {
	_, ok := c.texts[key]
	return ok
}

// get returns the text of the key, with the arguments filled in: names and values
// in turn. The argument n chooses the form. A key that the catalogue does not
// have is shown itself; tests find it.
func (c *catalogue) get(key string, args ...any) string {
	found, ok := c.texts[key]
	if !ok {
		if c.missing != nil {
			c.missing(key)
		}
		return key
	}
	form := found.other
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "n" && fmt.Sprint(args[i+1]) == "1" {
			form = found.one
		}
	}
	if len(args) < 2 {
		return form
	}
	pairs := make([]string, 0, len(args))
	for i := 0; i+1 < len(args); i += 2 {
		pairs = append(pairs, fmt.Sprintf("{%v}", args[i]), c.show(args[i+1]))
	}
	return strings.NewReplacer(pairs...).Replace(form)
}

// show returns a value as the language writes it.
func (c *catalogue) show(value any) string {
	switch value := value.(type) {
	case int:
		return c.number(int64(value))
	case int64:
		return c.number(value)
	case float64:
		return c.decimal(value)
	case time.Duration:
		return c.duration(value)
	}
	return fmt.Sprint(value)
}

// number returns a whole number with separators between the thousands.
func (c *catalogue) number(n int64) string {
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
	return sign + strings.Join(groups, c.get("format.thousands"))
}

// decimal returns a number with at most two digits after the point.
func (c *catalogue) decimal(x float64) string {
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
		shown += c.get("format.decimal") + rest
	}
	return shown
}

// day is the largest unit of lengths of time.
const day = 24 * time.Hour

// rounded rounds d to the precision that duration prints.
func rounded(d time.Duration) time.Duration {
	for _, from := range []struct{ length, to time.Duration }{
		{day, time.Hour}, {time.Hour, time.Minute}, {10 * time.Second, time.Second}, {time.Second, 10 * time.Millisecond}, {time.Millisecond, time.Millisecond},
	} {
		if d >= from.length {
			return d.Round(from.to)
		}
	}
	return d
}

// duration returns a length of time in its two largest units, such as 1 h 5 min.
func (c *catalogue) duration(d time.Duration) string {
	if d < 0 {
		return "−" + c.duration(-d)
	}
	d = rounded(d)
	in := func(key string, n time.Duration) string { return c.get(key, "n", int64(n)) }
	two := func(large string, n time.Duration, small string, m time.Duration) string {
		if m == 0 {
			return in(large, n)
		}
		return in(large, n) + " " + in(small, m)
	}
	switch {
	case d < time.Millisecond && d > 0:
		return c.get("unit.ms", "n", float64(d.Microseconds())/1000)
	case d < time.Second:
		return in("unit.ms", d/time.Millisecond)
	case d < 10*time.Second && d%time.Second != 0:
		return c.get("unit.s", "n", d.Seconds())
	case d < time.Minute:
		return in("unit.s", d/time.Second)
	case d < time.Hour:
		return two("unit.min", d/time.Minute, "unit.s", d%time.Minute/time.Second)
	case d < day:
		return two("unit.h", d/time.Hour, "unit.min", d%time.Hour/time.Minute)
	}
	return two("unit.d", d/day, "unit.h", d%day/time.Hour)
}

// measured returns a length of time that was measured in whole milliseconds: 0 is less than one.
func (c *catalogue) measured(ms int64) string {
	if ms == 0 {
		return c.get("unit.below_ms")
	}
	return c.duration(time.Duration(ms) * time.Millisecond)
}

// relative returns how far an instant is from now: 5 min ago, or in 5 min.
func (c *catalogue) relative(at, now time.Time) string {
	d := at.Sub(now)
	switch {
	case d > -time.Second && d < time.Second:
		return c.get("time.now")
	case d < 0:
		return c.get("time.ago", "span", c.rough(-d))
	}
	return c.get("time.in", "span", c.rough(d))
}

// spanUnit is a unit of relative times: s, min, h or d.
type spanUnit struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // in seconds
	End  int64  `json:"end"`  // the number from which on the next unit is used; 0: none follows
}

// spanUnits are the units of relative times, the smallest first. A number is rounded and at
// least 2 of its unit, so what is shown is never far from the truth: 119 min, then 2 h. The
// layout hands them to app.js, which keeps relative times right in the same way.
var spanUnits = []spanUnit{{"s", 1, 120}, {"min", 60, 120}, {"h", 3600, 48}, {"d", 86400, 0}}

// rough returns a length of time in one unit.
func (c *catalogue) rough(d time.Duration) string {
	for _, unit := range spanUnits {
		size := time.Duration(unit.Size) * time.Second
		if n := int64(d.Round(size) / size); n < unit.End || unit.End == 0 {
			return c.get("unit."+unit.Name, "n", n)
		}
	}
	return ""
}
