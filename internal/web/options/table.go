package options

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/shape"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/text"
)

// option is an option of an endpoint in a form: a field of apitypes.EndpointUpdate
// with one input or several.
type option struct {
	// name is the name of the field in the API.
	name   string
	inputs []input
	// show returns the value of each input.
	show func(apitypes.Endpoint) []string
	// set puts the values of the inputs into a change. If a value cannot be read, the error is
	// the key of the text that says why, and the change gets a value that the API refuses. So the
	// API reports the other faults of the form, and saves nothing.
	set func(*apitypes.EndpointUpdate, []string) error
}

// input is an input of a form.
type input struct {
	// Part is the part of the option that the input is for, such as username; the
	// text option.NAME.PART is its label. Empty: the whole option.
	Part string
	// Kind is text, lines, select, checks, number, duration, secret or secret_lines. The form
	// never has the stored value of a secret; an empty input keeps the stored value.
	Kind string
	// Choices are the values of a select or of checks. An empty choice is the default.
	Choices []string
}

// unreadable is a preset, a URL and an event type that the API refuses.
const unreadable = "?"

// These choices show other inputs of an option: ownChoice a list or numbers of the person's own,
// formulaChoice the numbers of a retry schedule.
const ownChoice, formulaChoice = "own", "formula"

// authParts are the inputs that each kind of authentication has, beside its type.
var authParts = map[postrider.AuthKind][]string{
	postrider.AuthBasic: {"username", "secret"}, postrider.AuthBearer: {"secret"}, postrider.AuthAPIKey: {"header", "secret"},
	postrider.AuthOAuth2: {"token_url", "client_id", "scopes", "audience", "secret"},
}

// choicesOf returns the values of the select for which the input of a part is shown, separated by
// spaces; empty: always. For other values the stylesheet hides the input.
func (o option) choicesOf(part string) string {
	var choices []string
	switch {
	case part == o.inputs[0].Part:
	case o.name == "auth":
		for _, kind := range postrider.AuthKinds {
			if slices.Contains(authParts[kind], part) {
				choices = append(choices, string(kind))
			}
		}
	case o.name == "circuit", o.name == "retry" && part == "delays_ms":
		choices = []string{ownChoice}
	case o.name == "retry" && part == "jitter":
		choices = []string{ownChoice, formulaChoice}
	case o.name == "retry":
		choices = []string{formulaChoice}
	}
	return strings.Join(choices, " ")
}

// field returns the name of the form field of an input.
func (o option) field(i int) string {
	if o.inputs[i].Part == "" {
		return o.name
	}
	return o.name + "." + o.inputs[i].Part
}

// unreadError says that one input of an option cannot be read.
type unreadError struct {
	error // its text is the key of the text that says what is wrong

	part string
	args []any // of the text
}

// The errors of inputs that cannot be read, by the keys of their texts.
var (
	errNoURL     = errors.New("fault.url.required")
	errNoTypes   = errors.New("fault.event_types.required")
	errNoNumber  = errors.New("form.no_number")
	errNoRate    = errors.New("form.no_rate")
	errNoRetry   = errors.New("form.no_retry")
	errNoDelay   = errors.New("form.no_delay")
	errNoDecimal = errors.New("form.no_decimal")
	errNoHeader  = errors.New("form.no_header")
	errNoJSON    = errors.New("form.no_json_value")
)

// optionGroups are the options in the order of the form. A test demands every field
// of apitypes.EndpointUpdate.
var optionGroups = []struct {
	name    string
	options []option
}{
	{"what", []option{
		{
			"url", one("text"), func(e apitypes.Endpoint) []string { return []string{e.URL} },
			setURL,
		},
		{
			"event_types", one("lines"), func(e apitypes.Endpoint) []string { return []string{strings.Join(e.EventTypes, "\n")} },
			setEventTypes,
		},
		{
			"description", one("text"), func(e apitypes.Endpoint) []string { return []string{e.Description} },
			func(u *apitypes.EndpointUpdate, to []string) error { u.Description = orDefault(to[0]); return nil },
		},
		{
			"uid", one("text"), func(e apitypes.Endpoint) []string { return []string{fmt.Sprint(text.Deref(e.UID))} },
			func(u *apitypes.EndpointUpdate, to []string) error { u.UID = orDefault(to[0]); return nil },
		},
		{
			"metadata", one("lines"), func(e apitypes.Endpoint) []string { return []string{page.MetadataText(e.Metadata)} },
			setMetadata,
		},
	}},
	{"filter", []option{
		{"filter", one("lines"), showFilter, setFilter},
		plain("changed"), plain("channels"),
		{
			"condition", one("lines"), func(e apitypes.Endpoint) []string { return []string{e.Condition.Value()} },
			func(u *apitypes.EndpointUpdate, to []string) error {
				u.Condition = apitypes.NullUnless(to[0] != "", to[0])
				return nil
			},
		},
	}},
	{"request", []option{
		plain("payload"),
		plain("include_previous"),
		{"signature", []input{{"", "checks", signatureSchemes}, {"custom", "lines", nil}}, showSignature, setSignature},
		{"headers", []input{{"", "lines", nil}, {"secret", "secret_lines", nil}}, showHeaders, setHeaders},
		{"auth", []input{
			{"type", "select", page.Words(postrider.AuthKinds)},
			{"username", "text", nil},
			{"header", "text", nil},
			{"token_url", "text", nil},
			{"client_id", "text", nil},
			{"scopes", "text", nil},
			{"audience", "text", nil},
			{"secret", "secret", nil},
		}, showAuth, setAuth},
		{"tls", []input{{"certificate", "lines", nil}, {"key", "secret_lines", nil}, {"authorities", "lines", nil}}, showTLS, setTLS},
		plain("compression"),
		plain("max_redirects"),
		plain("send_traceparent"),
	}},
	{"failures", []option{
		{"retry", []input{
			{"preset", "select", append([]string{"", ownChoice, formulaChoice}, postrider.Presets()...)},
			{"delays_ms", "text", nil},
			{"base_ms", "duration", nil},
			{"factor", "number", nil},
			{"cap_ms", "duration", nil},
			{"max_attempts", "number", nil},
			{"jitter", "text", nil},
		}, showRetry, setRetry},
		plain("client_errors"),
		plain("expiry_ms"),
		{"circuit", []input{
			{"preset", "select", []string{"", ownChoice, "default", "strict", "windowed", "never"}},
			{"failures", "number", nil},
			{"percent", "number", nil},
			{"attempts", "number", nil},
			{"window_ms", "duration", nil},
			{"cooldown_ms", "duration", nil},
			{"max_cooldown_ms", "duration", nil},
		}, showCircuit, setCircuitPolicy},
	}},
	{"pace", []option{
		plain("timeout_ms"),
		plain("adaptive_timeout"),
		plain("concurrency"),
		{"rate", one("text"), showRate, setRate},
		plain("order"),
		plain("on_dead"),
	}},
}

// signatureSchemes are the schemes of package signature.
var signatureSchemes = []string{"standard", "stripe", "github", "github-sha1", "shopify", "slack", "svix", "timestamped", "plain"}

// one returns a single input.
func one(kind string) []input { return []input{{Kind: kind}} }

// orDefault returns an optional text: empty is null, the default.
func orDefault(text string) apitypes.Optional[string] { return apitypes.NullUnless(text != "", text) }

// setURL refuses an empty URL: the API would leave it unchanged.
func setURL(u *apitypes.EndpointUpdate, to []string) error {
	if u.URL = to[0]; u.URL == "" {
		u.URL = unreadable
		return errNoURL
	}
	return nil
}

// setEventTypes refuses an empty list: the API would leave the list unchanged.
func setEventTypes(u *apitypes.EndpointUpdate, to []string) error {
	u.EventTypes = strings.Fields(strings.ReplaceAll(to[0], ",", " "))
	if len(u.EventTypes) == 0 {
		u.EventTypes = []string{unreadable}
		return errNoTypes
	}
	return nil
}

// showFilter returns the pattern with line breaks.
func showFilter(e apitypes.Endpoint) []string {
	pattern, ok := e.Filter.Get()
	if !ok {
		return []string{""}
	}
	return []string{page.PrettyJSON(pattern)}
}

func setFilter(u *apitypes.EndpointUpdate, to []string) error {
	u.Filter = apitypes.NullUnless(to[0] != "", json.RawMessage(to[0]))
	if to[0] != "" && !json.Valid([]byte(to[0])) {
		u.Filter = apitypes.Of(json.RawMessage(`"?"`))
		return errNoJSON
	}
	return nil
}

// setMetadata sets all keys. If they cannot be read, the change keeps the stored ones.
func setMetadata(u *apitypes.EndpointUpdate, to []string) error {
	m, err := page.ParseMetadata(to[0])
	if err == nil {
		u.Metadata = apitypes.NullUnless(len(m) > 0, m)
	}
	return err
}

// plain returns the option for a field of apitypes.Policy, by its name in JSON. The field is a
// number, a length of time, a choice, yes or no, or a list of texts. Its Go type says which; its tag enum has the
// choices.
func plain(name string) option {
	place := slices.IndexFunc(reflect.VisibleFields(reflect.TypeFor[apitypes.Policy]()), func(f reflect.StructField) bool {
		return f.Tag.Get("json") == name+",omitzero"
	})
	field := reflect.TypeFor[apitypes.Policy]().Field(place)
	optional := func(p *apitypes.Policy) shape.Optional {
		o, _ := reflect.TypeAssert[shape.Optional](reflect.ValueOf(p).Elem().Field(place).Addr())
		return o
	}
	value := func(p *apitypes.Policy) reflect.Value { return reflect.ValueOf(optional(p).SetValue()).Elem() }
	inputs, show := one("number"), func(v reflect.Value) string { return fmt.Sprint(v) }
	switch value(&apitypes.Policy{}).Kind() {
	case reflect.Bool:
		inputs = []input{{"", "select", []string{"", "false", "true"}}}
	case reflect.String:
		inputs = []input{{"", "select", append([]string{""}, strings.Split(field.Tag.Get("enum"), ",")...)}}
	case reflect.Slice:
		inputs, show = one("lines"), func(v reflect.Value) string {
			list, _ := reflect.TypeAssert[[]string](v)
			return strings.Join(list, "\n")
		}
	case reflect.Int64:
		inputs, show = one("duration"), func(v reflect.Value) string { return text.DurationText(v.Int()) }
	default:
	}
	return option{
		name, inputs,
		func(e apitypes.Endpoint) []string { return []string{show(value(&e.Policy))} },
		func(u *apitypes.EndpointUpdate, to []string) error {
			if to[0] == "" {
				optional(&u.Policy).SetNull() // the default
				return nil
			}
			return setPlain(value(&u.Policy), to[0])
		},
	}
}

// setPlain reads the value of an input. If it cannot be read, it sets a value that the API
// refuses.
func setPlain(value reflect.Value, typed string) error {
	switch value.Kind() {
	case reflect.Bool:
		value.SetBool(typed == "true")
	case reflect.String:
		value.SetString(typed)
	case reflect.Slice:
		for line := range strings.Lines(typed) {
			if line = strings.TrimSpace(line); line != "" {
				value.Set(reflect.Append(value, reflect.ValueOf(line)))
			}
		}
	case reflect.Int64:
		d, err := text.ParseDuration(typed)
		if err != nil {
			value.SetInt(-1)
			return err
		}
		value.SetInt(d.Milliseconds())
	default:
		n, err := strconv.Atoi(typed)
		if err != nil {
			value.SetInt(-1)
			return errNoNumber
		}
		value.SetInt(int64(n))
	}
	return nil
}

// showCircuit returns the preset and the numbers. It leaves out numbers that are 0, because these
// do not open the circuit.
func showCircuit(e apitypes.Endpoint) []string {
	c := e.Policy.Circuit.Value()
	values := []string{cmp.Or(c.Preset, ownChoice)}
	for _, n := range []*int{c.Failures, c.Percent, c.Attempts} {
		said := ""
		if n != nil && *n != 0 {
			said = strconv.Itoa(*n)
		}
		values = append(values, said)
	}
	for _, ms := range []*int64{c.WindowMS, c.CooldownMS, c.MaxCooldownMS} {
		said := ""
		if ms != nil && *ms != 0 {
			said = text.DurationText(*ms)
		}
		values = append(values, said)
	}
	return values
}

// setCircuitPolicy sends the numbers only with the choice "own". For a number that is left out,
// the API uses the default.
func setCircuitPolicy(u *apitypes.EndpointUpdate, to []string) error {
	if to[0] != ownChoice {
		u.Circuit = apitypes.NullUnless(to[0] != "", apitypes.CircuitPolicy{Preset: to[0]})
		return nil
	}
	u.Circuit = apitypes.Of(apitypes.CircuitPolicy{Preset: unreadable}) // until it is read
	var c apitypes.CircuitPolicy
	for i, number := range []struct {
		part string
		into **int
	}{{"failures", &c.Failures}, {"percent", &c.Percent}, {"attempts", &c.Attempts}} {
		n, err := strconv.Atoi(strings.TrimRight(to[1+i], " %"))
		if err != nil && to[1+i] != "" {
			return &unreadError{error: errNoNumber, part: number.part}
		}
		if err == nil {
			*number.into = &n
		}
	}
	for i, length := range []struct {
		part string
		into **int64
	}{{"window_ms", &c.WindowMS}, {"cooldown_ms", &c.CooldownMS}, {"max_cooldown_ms", &c.MaxCooldownMS}} {
		d, err := text.ParseDuration(to[4+i])
		if err != nil && to[4+i] != "" {
			return &unreadError{error: err, part: length.part}
		}
		if err == nil {
			*length.into = new(d.Milliseconds())
		}
	}
	u.Circuit = apitypes.Of(c)
	return nil
}

// showRate returns a rate as the command line has it: 100/1s+20 is 100 attempts a
// second, with a burst of 20.
func showRate(e apitypes.Endpoint) []string {
	r, ok := e.Rate.Get()
	if !ok {
		return []string{""}
	}
	text := fmt.Sprintf("%d/%s", r.Attempts, text.DurationText(r.PerMS))
	if r.Burst > 0 {
		text += fmt.Sprintf("+%d", r.Burst)
	}
	return []string{text}
}

func setRate(u *apitypes.EndpointUpdate, to []string) error {
	if to[0] == "" {
		u.Rate = apitypes.Null[apitypes.Rate]()
		return nil
	}
	rate, burst, _ := strings.Cut(strings.ReplaceAll(to[0], " ", ""), "+")
	attempts, per, _ := strings.Cut(rate, "/")
	var r apitypes.Rate
	var errs [3]error
	r.Attempts, errs[0] = strconv.Atoi(attempts)
	if burst != "" {
		r.Burst, errs[1] = strconv.Atoi(burst)
	}
	if per != "" && (per[0] < '0' || per[0] > '9') {
		per = "1" + per // 100/s
	}
	d, err := text.ParseDuration(per)
	if errs[2] = err; errors.Join(errs[:]...) != nil {
		u.Rate = apitypes.Of(apitypes.Rate{Attempts: -1})
		return errNoRate
	}
	r.PerMS = d.Milliseconds()
	u.Rate = apitypes.Of(r)
	return nil
}

// showSignature returns the schemes that use their own headers. Each other scheme is a line
// SCHEME:HEADER:PREFIX.
func showSignature(e apitypes.Endpoint) []string {
	var own, custom []string
	for _, s := range e.Signature.Value().Schemes {
		if s.Header == "" && s.Prefix == "" {
			own = append(own, string(s.Scheme))
			continue
		}
		custom = append(custom, strings.TrimSuffix(fmt.Sprintf("%s:%s:%s", s.Scheme, s.Header, s.Prefix), ":"))
	}
	return []string{strings.Join(own, " "), strings.Join(custom, "\n")}
}

func setSignature(u *apitypes.EndpointUpdate, to []string) error {
	var s apitypes.Signature
	for name := range strings.FieldsSeq(to[0]) {
		s.Schemes = append(s.Schemes, apitypes.Scheme{Scheme: postrider.Scheme(name)})
	}
	for line := range strings.FieldsSeq(to[1]) {
		parts := strings.SplitN(line+"::", ":", 3)
		s.Schemes = append(s.Schemes, apitypes.Scheme{
			Scheme: postrider.Scheme(parts[0]), Header: parts[1], Prefix: strings.TrimRight(parts[2], ":"),
		})
	}
	u.Signature = apitypes.NullUnless(len(s.Schemes) > 0, s)
	return nil
}

// showHeaders returns a line NAME: VALUE for each header, and a line NAME for each
// sensitive one.
func showHeaders(e apitypes.Endpoint) []string {
	var open, secret []string
	for _, h := range e.Headers.Value() {
		if h.Sensitive {
			secret = append(secret, h.Name)
			continue
		}
		open = append(open, h.Name+": "+h.Value.Value())
	}
	return []string{strings.Join(open, "\n"), strings.Join(secret, "\n")}
}

func setHeaders(u *apitypes.EndpointUpdate, to []string) error {
	headers := []apitypes.Header{}
	u.Headers = apitypes.Of([]apitypes.Header{{}}) // until they are read
	for i, sensitive := range []bool{false, true} {
		for line := range strings.Lines(to[i]) {
			name, value, there := strings.Cut(strings.TrimSpace(line), ":")
			if name == "" {
				continue
			}
			if !there && !sensitive {
				return errNoHeader
			}
			h := apitypes.Header{Name: strings.TrimSpace(name), Sensitive: sensitive}
			if there { // a sensitive header without a value keeps the stored one
				h.Value = apitypes.Of(strings.TrimSpace(value))
			}
			headers = append(headers, h)
		}
	}
	u.Headers = apitypes.Of(headers)
	return nil
}

func showAuth(e apitypes.Endpoint) []string {
	a, ok := e.Auth.Get()
	if !ok {
		a.Type = postrider.AuthNone
	}
	return []string{string(a.Type), a.Username, a.Header, a.TokenURL, a.ClientID, strings.Join(a.Scopes, " "), a.Audience, ""}
}

// setAuth sends only the fields of the chosen type. So a field that was typed for another type is
// not a fault.
func setAuth(u *apitypes.EndpointUpdate, to []string) error {
	a := apitypes.Auth{Type: postrider.AuthKind(to[0])}
	secret := to[7]
	switch a.Type {
	case "", postrider.AuthNone:
		u.Auth = apitypes.Null[apitypes.Auth]()
		return nil
	case postrider.AuthBasic:
		a.Username, a.Password = to[1], secret
	case postrider.AuthBearer:
		a.Token = secret
	case postrider.AuthAPIKey:
		a.Header, a.Key = to[2], secret
	case postrider.AuthOAuth2:
		a.TokenURL, a.ClientID, a.Scopes, a.Audience, a.ClientSecret = to[3], to[4], strings.Fields(to[5]), to[6], secret
	}
	u.Auth = apitypes.Of(a)
	return nil
}

func showTLS(e apitypes.Endpoint) []string {
	t := e.TLS.Value()
	return []string{t.Certificate, "", t.Authorities}
}

func setTLS(u *apitypes.EndpointUpdate, to []string) error {
	t := apitypes.TLS{Certificate: to[0], Key: to[1], Authorities: to[2]}
	u.TLS = apitypes.NullUnless(t != apitypes.TLS{}, t)
	return nil
}
