package page

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/text"
)

func compactJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// functions returns the functions of the templates.
func (r *renderer) functions() template.FuncMap {
	functions := template.FuncMap{
		// Texts and numbers, as the language writes them.
		"t": func(key string, args ...any) string { return r.visit.T(key, args...) },
		// worded returns the text of a word of the API; if there is no text, the word itself.
		"worded": func(prefix string, word any) string {
			if key := fmt.Sprint(prefix, word); r.visit.Text.Has(key) {
				return r.visit.T(key)
			}
			return fmt.Sprint(word)
		},
		"has":        func(key string) bool { return r.visit.Text.Has(key) },
		"label":      func(field string) string { return r.visit.Text.Label(field) },
		"number":     func(n any) string { return r.visit.Text.Show(n) },
		"percent":    func(share float64) string { return r.visit.Text.Percent(share) },
		"success_of": successOf, "success_in": successIn,
		"add":      func(a, b int64) int64 { return a + b },
		"spans":    func() string { return compactJSON(text.SpanUnits) },
		"duration": func(d time.Duration) string { return r.visit.Text.Duration(d) },
		"ms":       func(ms int64) string { return r.visit.Text.Measured(ms) },
		"bytes":    func(n int) string { return r.visit.Text.Bytes(n) },
		"size":     func(n int64) int { return int(n) },
		// Times, in the zone of the person.
		"time":  r.time,
		"clock": func(at any) string { return Instant(at).In(r.visit.Zone).Format("15:04:05") },
		// Paths and links.
		"path":     func(parts ...any) string { return r.visit.Path(parts...) },
		"filtered": r.filtered,
		"asset":    r.assets.path,
		"href":     href,
		// Permissions of the person, and settings of the server.
		"can":    func(scope string) bool { return r.visit.Can(postrider.Scope(scope)) },
		"http":   func() bool { return r.visit.Site.Options.AllowHTTP },
		"emails": func() bool { return r.visit.Site.Options.Emails },
		"portal": func() bool { return r.visit.Who == Customers },
		// Parts.
		"content":  r.content,
		"here":     func() string { return r.visit.Request.URL.RequestURI() },
		"list":     func(items ...any) []any { return items },
		"dict":     dict,
		"icon":     func(name string) template.HTML { return template.HTML(icons[name]) }, //nolint:gosec // constants
		"json":     PrettyJSON,
		"join":     func(items []string) string { return strings.Join(items, ", ") },
		"more":     func(items []string, shown int) int { return len(items) - shown },
		"has_word": func(words, word string) bool { return slices.Contains(strings.Fields(words), word) },
		"deref":    text.Deref,
		"failure":  func(text *string) string { return r.visit.Text.Cause(*text) },
		"normal":   normal,
		"plus":     Plus,
		"base64":   base64.StdEncoding.EncodeToString,
		"at":       func(name, value string) string { return at(r.visit, name, value) },
		"tone":     tone,
		"low":      func(rate float64) bool { return rate < lowRate },
		"ended":    func(n apitypes.StatsNumbers) int64 { return n.Deliveries.Delivered + n.Deliveries.Dead },
	}
	maps.Copy(functions, r.nameFunctions())
	return functions
}

// nameFunctions returns the functions about endpoints, accounts and deliveries.
func (r *renderer) nameFunctions() template.FuncMap {
	return template.FuncMap{
		"place": func(e apitypes.Endpoint) string { return place(r.visit, e) },
		"portal_call": func(account postrider.AccountID) string {
			return "curl -H \"Authorization: Bearer $POSTRIDER_API_KEY\" -d '{\"account\": \"" + account.String() + "\"}' '" +
				r.visit.Site.origin() + "/v1/webhooks/portal-sessions'"
		},
		"endpoint_name": func(id postrider.EndpointID) Name { return nameOr(r.visit.Names.Endpoints, id) },
		"endpoint_id_name": func(text string) (Name, error) {
			id, err := postrider.ParseID[postrider.EndpointID](text)
			return nameOr(r.visit.Names.Endpoints, id), err
		},
		"name_of":      func(e apitypes.Endpoint) Name { return r.visit.NameOf(e) },
		"reason_of":    func(f *apitypes.LastFailure) string { return r.visit.Text.ReasonOf(f) },
		"account_name": func(id postrider.AccountID) Name { return nameOr(r.visit.Names.Accounts, id) },
		// answered reports whether the error of an attempt has nothing but its status code.
		"answered": func(err *string) bool { return strings.HasPrefix(*err, string(postrider.FailureStatus)+": ") },
		"scheduled": func(d apitypes.Delivery) bool {
			return d.Waiting != nil && d.Waiting.Reason == postrider.WaitScheduled
		},
	}
}

// shownTime is a time for the partial "when".
type shownTime struct {
	ISO, Full, Relative string
}

// time returns a time of the domain or of the API for the partial "when". Zero: there is no time.
func (r *renderer) time(at any) shownTime {
	t := Instant(at)
	if t.IsZero() {
		return shownTime{}
	}
	return shownTime{
		ISO:      t.UTC().Format("2006-01-02T15:04:05.000Z"),
		Full:     t.In(r.visit.Zone).Format("2006-01-02 15:04:05 MST"),
		Relative: r.visit.Text.Relative(t, r.visit.Now),
	}
}

// Instant returns a time as a [time.Time]; the zero time if there is no time.
func Instant(at any) time.Time {
	switch at := at.(type) {
	case time.Time:
		return at
	case apitypes.Time:
		return at.Time
	case *apitypes.Time:
		if at != nil {
			return at.Time
		}
	}
	return time.Time{}
}

// filtered returns the URL of this page with another value of a parameter. The URL leads to the
// first page of the list.
func (r *renderer) filtered(name, value string) string {
	query := r.visit.Request.URL.Query()
	query.Del("cursor")
	query.Set(name, value)
	if value == "" {
		query.Del(name)
	}
	if len(query) == 0 {
		return r.visit.Request.URL.Path
	}
	return r.visit.Request.URL.Path + "?" + query.Encode()
}

// href returns the URL if it may be a link: an absolute http or https URL. Otherwise it returns
// an empty string, and the page shows the URL as text.
func href(raw string) string {
	at, err := url.Parse(raw)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return ""
	}
	return raw
}

// dict returns the arguments of a partial: names and values in turn.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict needs pairs")
	}
	args := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		args[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return args, nil
}

// PrettyJSON returns JSON with line breaks. Text that is not JSON is returned unchanged.
func PrettyJSON(text any) string {
	raw := []byte(fmt.Sprint(text))
	switch text := text.(type) {
	case json.RawMessage:
		raw = text
	case []byte:
		raw = text
	}
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// lowRate is the success rate below which the page marks a figure.
const lowRate = 0.95

// tones has the colour of each status. Colour is never the only sign: a badge also has the word
// of the status and a shape.
var tones = map[string]string{
	"enabled": "good", "closed": "good", "healthy": "good", "delivered": "good", "accepted": "good", "active": "good", "done": "good",
	"pending": "busy", "half_open": "busy", "running": "busy", "in_flight": "busy",
	"reading": "good", "starting": "busy", "stopped": "bad",
	"alive": "good", "leaving": "warn", "circuit_open": "bad", "failing": "warn", "dead_letters": "bad",
	"paused": "warn", "warned": "warn", "throttled": "warn", "waiting": "warn", "unsubscribed": "warn", "lost": "warn", "expiring": "warn",
	"refused": "bad", "open": "bad", "dead": "bad", "disabled": "bad", "rejected": "bad", "gone": "bad", "unreachable": "bad",
	"timed_out": "bad", "broken": "bad", "blocked": "bad", "revoked": "bad", "failed": "bad",
}

// tone returns the colour of a status: good, busy, warn, bad or idle.
func tone(status any) string {
	if tone, ok := tones[fmt.Sprint(status)]; ok {
		return tone
	}
	return "idle"
}
