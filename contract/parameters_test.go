package contract_test

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// candidates are values at the edges of what parameters take.
var candidates = []string{
	"", "x", "-1", "0", "1", "250", "251", "1.5", "true", "false", "TRUE", "null", "asc", "pending", "enabled", "day",
	"2026-01-01", "2026-02-30", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T25:00:00Z", "Europe/Berlin", "../../etc/passwd",
	strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 256), strings.Repeat("x", 257), strings.Repeat("x", 513),
	strings.Repeat("x", 2049),
}

// semantic are the parameters whose values a schema cannot tell, and why.
var semantic = map[string]string{
	"cursor":     "the server makes cursors; another text is none",
	"tz":         "a time zone is in the database of time zones or not",
	"ids":        "an id has its own alphabet",
	"type":       "an event type has its own grammar",
	"event_type": "a pattern of event types has its own grammar",
	"from":       "a year before 1970 and a range that is too long are refused",
	"to":         "the same",
	"action":     "the actions of the audit log are in its own table",
	"kind":       "the kinds of notices are in their own table",
}

// driveParameters sends each parameter of each operation values at the edges. What the document
// refuses the server refuses, and the other way round.
func (c *caller) driveParameters() {
	c.Helper()
	for _, op := range c.document.ops {
		parameters, _ := op.def["parameters"].([]any)
		for i, p := range parameters {
			def := p.(object)
			if def["in"] != "query" {
				continue
			}
			schema := c.document.compile(c.T, "#/paths/"+pointer(op.path)+"/"+strings.ToLower(op.method)+"/parameters/"+strconv.Itoa(i)+"/schema")
			for _, value := range candidates {
				c.agree(op, def["name"].(string), schema, value)
			}
		}
	}
}

// agree sends one value of a parameter.
func (c *caller) agree(op *operation, name string, schema *jsonschema.Schema, value string) {
	c.Helper()
	query := url.Values{name: {value}}
	if op.id == "search" && name != "q" {
		query.Set("q", "nobody")
	}
	route := op.method + " " + unknown.Replace(strings.TrimPrefix(op.path, "/v1/webhooks"))
	got := c.send(request{route: route + "?" + query.Encode(), body: op.sends()})
	valid := schema.Validate(typed(schema, value)) == nil
	if !valid && got.status < 400 {
		c.Errorf("%s?%s = %d, but by the document the value is wrong", route, query.Encode(), got.status)
	}
	if code := got.faultOf(name); valid && semantic[name] == "" && code != "" && code != "not_found" && code != "contradictory" {
		c.Errorf("%s?%s is refused as %s, but by the document the value is right", route, query.Encode(), code)
	}
}

// faultOf returns the code of the fault of a field, or "" if the answer has none.
func (a answer) faultOf(field string) string {
	faults, _ := a.body["errors"].([]any)
	for _, f := range faults {
		if fault := f.(object); fault["field"] == field {
			code, _ := fault["code"].(string)
			return code
		}
	}
	return ""
}

// typed returns the text of a parameter as the type that its schema wants.
func typed(schema *jsonschema.Schema, text string) any {
	types := []string{}
	if schema.Types != nil {
		types = schema.Types.ToStrings()
	}
	if n, err := strconv.Atoi(text); err == nil && slices.Contains(types, "integer") {
		return n
	}
	// A query has only texts. The server takes every spelling of a boolean that Go takes.
	if b, err := strconv.ParseBool(text); err == nil && slices.Contains(types, "boolean") {
		return b
	}
	return text
}
