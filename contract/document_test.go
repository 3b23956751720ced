package contract_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const documentFile = "../docs/api/openapi.json"

type object = map[string]any

// document is the OpenAPI document of the API.
type document struct {
	root     object
	ops      []*operation
	compiler *jsonschema.Compiler
}

// operation is a route of the document.
type operation struct {
	id, method, path string
	def              object
	responses        map[int]*response
	body             *jsonschema.Schema // of requests; nil: there is none
}

// response is what an operation may answer with one status.
type response struct {
	def    object
	codes  []string           // of problems; empty: it is none
	media  string             // empty: there is no body
	schema any                // of the body, as the document has it
	check  *jsonschema.Schema // the same, compiled
}

// readDocument reads the document and compiles the schema of every body.
func readDocument(t *testing.T) *document {
	t.Helper()
	file, err := os.Open(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parsed, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatalf("read %s: %v", documentFile, err)
	}
	d := &document{root: parsed.(object), compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020) // OpenAPI 3.1's
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("openapi.json", parsed); err != nil {
		t.Fatal(err)
	}
	paths := d.root["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for method, def := range paths[path].(object) {
			d.ops = append(d.ops, d.operation(t, strings.ToUpper(method), path, def.(object)))
		}
	}
	return d
}

func (d *document) operation(t *testing.T, method, path string, def object) *operation {
	t.Helper()
	op := &operation{id: def["operationId"].(string), method: method, path: path, def: def, responses: map[int]*response{}}
	at := "#/paths/" + pointer(path) + "/" + strings.ToLower(method)
	for text, r := range def["responses"].(object) {
		status, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: response %s is no status", op.id, text)
		}
		op.responses[status] = d.response(t, at+"/responses/"+text, r.(object))
	}
	if _, takesBody := def["requestBody"]; takesBody {
		op.body = d.compile(t, at+"/requestBody/content/"+pointer("application/json")+"/schema")
	}
	return op
}

func (d *document) response(t *testing.T, at string, def object) *response {
	t.Helper()
	if ref, ok := def["$ref"].(string); ok {
		at, def = ref, d.resolve(ref)
	}
	r := &response{def: def}
	codes, _ := def["x-codes"].([]any)
	for _, code := range codes {
		r.codes = append(r.codes, code.(string))
	}
	content, _ := def["content"].(object)
	for media, value := range content {
		r.media, r.schema = media, value.(object)["schema"]
		r.check = d.compile(t, at+"/content/"+pointer(media)+"/schema")
	}
	return r
}

func (d *document) compile(t *testing.T, at string) *jsonschema.Schema {
	t.Helper()
	schema, err := d.compiler.Compile("openapi.json" + at)
	if err != nil {
		t.Fatalf("compile %s: %v", at, err)
	}
	return schema
}

// resolve returns what a reference within the document points to.
func (d *document) resolve(ref string) object {
	found := any(d.root)
	for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		found = found.(object)[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return found.(object)
}

func pointer(token string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(token) }

// find returns the operation of a request.
func (d *document) find(method, path string) *operation {
	var found *operation
	for _, op := range d.ops {
		if op.method == method && matches(op.path, path) && (found == nil || strings.Contains(found.path, "{")) {
			found = op
		}
	}
	return found
}

func matches(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !strings.HasPrefix(want[i], "{") {
			return false
		}
	}
	return true
}

// judge returns how an answer contradicts the document, and the states that it
// shows.
func (d *document) judge(op *operation, answer *http.Response, body []byte) (states []string, faults []error) {
	r := op.responses[answer.StatusCode]
	if r == nil {
		return nil, []error{fmt.Errorf("%s: status %d is not in the document: %s", op.id, answer.StatusCode, body)}
	}
	states = append(states, fmt.Sprintf("%s %d", op.id, answer.StatusCode))
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s %d: %s", op.id, answer.StatusCode, fmt.Sprintf(format, args...)))
	}
	d.judgeHeaders(r, answer.Header, fault)
	if r.media == "" {
		if len(body) > 0 || answer.Header.Get("Content-Type") != "" {
			fault("a body where the document has none: %q", body)
		}
		return states, faults
	}
	if got := answer.Header.Get("Content-Type"); got != r.media {
		fault("media type %q, the document says %s", got, r.media)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
	if err != nil {
		fault("no JSON: %v: %q", err, body)
		return states, faults
	}
	if err := r.check.Validate(value); err != nil {
		fault("%v\n%s", err, body)
	}
	d.walk(r.schema, "", value, func(state string) { states = append(states, state) })
	if len(r.codes) > 0 {
		code, _ := value.(object)["code"].(string)
		if !slices.Contains(r.codes, code) {
			fault("code %q, the document says %v", code, r.codes)
		}
		states = append(states, fmt.Sprintf("%s %d %s", op.id, answer.StatusCode, code))
	}
	return states, faults
}

// transport are headers of HTTP itself, which the document leaves out.
var transport = []string{"Content-Length", "Content-Type", "Date", "Connection", "Transfer-Encoding"}

func (d *document) judgeHeaders(r *response, got http.Header, fault func(string, ...any)) {
	described, _ := r.def["headers"].(object)
	for name, def := range described {
		header := def.(object)
		if ref, ok := header["$ref"].(string); ok {
			header = d.resolve(ref)
		}
		value := got.Get(name)
		if required, _ := header["required"].(bool); required && value == "" {
			fault("the header %s is missing", name)
		}
		if _, err := strconv.Atoi(value); value != "" && header["schema"].(object)["type"] == "integer" && err != nil {
			fault("the header %s is %q, want a whole number", name, value)
		}
	}
	for name := range got {
		if _, known := described[name]; !known && !slices.ContainsFunc(slices.Collect(maps.Keys(described)), func(h string) bool {
			return http.CanonicalHeaderKey(h) == name
		}) && !slices.Contains(transport, name) {
			fault("the header %s is not in the document", name)
		}
	}
}

// walk visits the states that a value shows by its schema: the value of each
// enum, and whether a nullable field is null. at is where the walk is, from the
// innermost component.
func (d *document) walk(schema any, at string, value any, visit func(state string)) {
	s, ok := schema.(object)
	if !ok {
		return
	}
	if ref, isRef := s["$ref"].(string); isRef {
		d.walk(d.resolve(ref), ref[strings.LastIndex(ref, "/")+1:], value, visit)
		return
	}
	if enum, isEnum := s["enum"].([]any); isEnum && slices.Contains(enum, value) {
		visit(fmt.Sprintf("%s = %v", at, value))
	}
	if nullable(s) {
		visit(fmt.Sprintf("%s is null: %t", at, value == nil))
	}
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			d.walk(s["items"], at+"[]", item, visit)
		}
	case object:
		properties, _ := s["properties"].(object)
		for name, property := range properties {
			if field, there := value[name]; there {
				d.walk(property, at+"."+name, field, visit)
			}
		}
	}
	for _, form := range forms(s) {
		if fits(form, value) {
			d.walk(form, at, value, visit)
		}
	}
}

// states visits every state that the schema names.
func (d *document) states(schema any, at string, visit func(state string) (seen bool)) {
	s, ok := schema.(object)
	if !ok {
		return
	}
	if ref, isRef := s["$ref"].(string); isRef {
		name := ref[strings.LastIndex(ref, "/")+1:]
		if !visit(name) {
			d.states(d.resolve(ref), name, visit)
		}
		return
	}
	enum, _ := s["enum"].([]any)
	for _, value := range enum {
		visit(fmt.Sprintf("%s = %v", at, value))
	}
	if nullable(s) {
		visit(at + " is null: true")
		visit(at + " is null: false")
	}
	d.states(s["items"], at+"[]", visit)
	properties, _ := s["properties"].(object)
	for name, property := range properties {
		d.states(property, at+"."+name, visit)
	}
	for _, form := range forms(s) {
		d.states(form, at, visit)
	}
}

func forms(s object) []any {
	oneOf, _ := s["oneOf"].([]any)
	anyOf, _ := s["anyOf"].([]any)
	return slices.Concat(oneOf, anyOf)
}

func nullable(s object) bool {
	types, _ := s["type"].([]any)
	return slices.Contains(types, any("null")) ||
		slices.ContainsFunc(forms(s), func(form any) bool { return form.(object)["type"] == "null" })
}

// fits reports whether a value is of the type of a form.
func fits(form, value any) bool {
	s := form.(object)
	switch value.(type) {
	case nil:
		return s["type"] == "null"
	case string:
		return s["type"] == "string"
	case object:
		return s["type"] == "object" || s["$ref"] != nil
	}
	return false
}

// wanted returns every state that the document names for answers.
func (d *document) wanted() map[string]bool {
	wanted, visited := map[string]bool{}, map[string]bool{}
	for _, op := range d.ops {
		for status, r := range op.responses {
			wanted[fmt.Sprintf("%s %d", op.id, status)] = true
			for _, code := range r.codes {
				wanted[fmt.Sprintf("%s %d %s", op.id, status, code)] = true
			}
			d.states(r.schema, op.id, func(state string) bool {
				if strings.Contains(state, " ") {
					wanted[state] = true
					return true
				}
				seen := visited[state]
				visited[state] = true
				return seen
			})
		}
	}
	return wanted
}
