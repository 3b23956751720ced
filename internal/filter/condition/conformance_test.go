package condition

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/expr"
	_ "cel.dev/expr/conformance/proto2" // messages in the files
	_ "cel.dev/expr/conformance/proto3"
	conformance "cel.dev/expr/conformance/test"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// conformed are the files of the specification's tests that are about the allowed parts. The others are
// about types of protocol buffers (dynamic, enums, fields of messages, proto2, proto3, wrappers),
// extensions (those that end in _ext, optionals), and what only a checker shows (type_deduction).
var conformed = []string{
	"basic", "comparisons", "conversions", "fields", "fp_math", "integer_math", "lists", "logic", "macros", "namespace", "parse",
	"plumbing", "string", "timestamps",
}

// differing are the tests whose results differ, with the reason. A name that ends in / is a section.
var differing = map[string]string{
	"string/matches/": "a condition has no regular expressions",
	"fields/map_fields/map_bad_key_type_or_true":                                "a constant that fails is refused",
	"fields/map_fields/map_bad_key_type_and_false":                              "a constant that fails is refused",
	"fields/qualified_identifier_resolution/map_key_float":                      "cel-go lets a map have doubles as keys",
	"fields/qualified_identifier_resolution/map_value_repeat_key":               "cel-go takes the last value",
	"fields/qualified_identifier_resolution/map_value_repeat_key_heterogeneous": "cel-go takes the first value",
	"timestamps/duration_converters/get_milliseconds":                           "cel-go returns the whole duration",
}

// TestTheTestsOfTheSpecification runs the tests that the CEL project keeps in module cel.dev/expr.
func TestTheTestsOfTheSpecification(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "cel.dev/expr").Output()
	if err != nil {
		t.Fatal(err)
	}
	passed, differ := 0, map[string]bool{}
	for _, name := range conformed {
		var file conformance.SimpleTestFile
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "tests/simple/testdata", name+".textproto"))
		if err != nil {
			t.Fatal(err)
		}
		if err := prototext.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for _, section := range file.GetSection() {
			for _, test := range section.GetTest() {
				if strings.Contains(test.String(), "TestAllTypes") || strings.Contains(test.GetExpr(), "google.protobuf.") {
					continue // about types of protocol buffers
				}
				full := fmt.Sprintf("%s/%s/%s", name, section.GetName(), test.GetName())
				known := reasonOf(full)
				err := conforms(test)
				switch {
				case err == nil && known == "":
					passed++
				case err != nil && known != "":
					differ[known] = true
				case err != nil:
					t.Errorf("%s: %s: %.200s", full, test.GetExpr(), err)
				}
			}
		}
	}
	if passed < 1000 {
		t.Errorf("%d tests pass, and there were more than 1,000", passed)
	}
	for name := range differing {
		if !differ[name] {
			t.Errorf("%s does not differ", name)
		}
	}
}

// reasonOf returns the key in differing of a test; empty: it has none.
func reasonOf(test string) string {
	for name := range differing {
		if test == name || strings.HasSuffix(name, "/") && strings.HasPrefix(test, name) {
			return name
		}
	}
	return ""
}

// conforms runs a test in the environment of conditions with the variables of the test.
func conforms(test *conformance.SimpleTest) error {
	env, err := environment()
	if err != nil {
		return err
	}
	options := []cel.EnvOption{cel.Container(test.GetContainer())}
	for _, d := range test.GetTypeEnv() {
		option, err := cel.ProtoAsDeclaration(d)
		if err != nil {
			return err
		}
		options = append(options, option)
	}
	if env, err = env.Extend(options...); err != nil {
		return err
	}
	ast, issues := env.Parse(test.GetExpr())
	if issues.Err() == nil && !test.GetDisableCheck() {
		ast, issues = env.Check(ast)
	}
	if issues.Err() != nil {
		return compare(test, nil, issues.Err())
	}
	if test.GetCheckOnly() {
		return nil
	}
	program, err := env.Program(ast, programOptions...)
	if err != nil { // a constant part of the expression fails, so a condition is refused
		return compare(test, nil, err)
	}
	bindings := map[string]any{}
	for name, value := range test.GetBindings() {
		if bindings[name], err = cel.ProtoAsValue(env.CELTypeAdapter(), value.GetValue()); err != nil {
			return err
		}
	}
	result, _, err := program.Eval(bindings)
	return compare(test, result, err)
}

// compare compares the result of a test with what it wants. A test that wants nothing else wants true.
func compare(test *conformance.SimpleTest, result ref.Val, err error) error {
	if test.GetEvalError() != nil {
		if err == nil {
			return fmt.Errorf("is %v, want the error %v", result, test.GetEvalError())
		}
		return nil
	}
	if err != nil {
		return err
	}
	got, err := cel.ValueAsProto(result)
	if err != nil {
		return err
	}
	want := test.GetValue()
	if typed := test.GetTypedResult(); typed != nil {
		want = typed.GetResult()
	}
	if want == nil {
		want = &expr.Value{Kind: &expr.Value_BoolValue{BoolValue: true}}
	}
	for _, v := range []*expr.Value{got, want} {
		if m := v.GetMapValue(); m != nil { // a map has no order
			slices.SortFunc(m.GetEntries(), func(a, b *expr.MapValue_Entry) int { return strings.Compare(a.String(), b.String()) })
		}
	}
	if !proto.Equal(got, want) {
		return fmt.Errorf("is %v, want %v", got, want)
	}
	return nil
}
