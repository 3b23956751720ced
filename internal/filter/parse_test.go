package filter_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/filter"
)

func TestFaultsAreFoundTogether(t *testing.T) {
	t.Parallel()
	_, err := filter.Parse([]byte(`{
		"source": ["aws"],
		"type": {"a": [1]},
		"metadata": ["x"],
		"data": {
			"order": {"status": ["paid", {"prefix": 5}, {"numeric": [">"]}, {"like": "x"}, [1], {}, {"prefix": "a", "suffix": "b"}], "no": []},
			"empty": {}, "plain": "x", "dup": [1], "dup": [2],
			"a.b": [{"cidr": "10.0.0.0/33"}, {"cidr": "::ffff:10.0.0.0/104"}, {"cidr": 1}],
			"n": [{"numeric": ["!=", 1]}, {"numeric": [">", 5, "<", 5]}, {"numeric": ["<", 5, ">", 1]}, {"numeric": ["=", "1"]}, {"numeric": 1}],
			"e": [{"exists": "yes"}, {"equals-ignore-case": null}, {"prefix": {"suffix": "a"}}, {"suffix": {"equals-ignore-case": 1}}],
			"w": [{"wildcard": "a**"}, {"wildcard": "\\a"}, {"wildcard": "a\\"}, {"wildcard": "` + strings.Repeat("a*", 17) + `"}],
			"b": [{"anything-but": null}, {"anything-but": []}, {"anything-but": ["a", 1]}, {"anything-but": [true]}, {"anything-but": {"cidr": "a"}},
				{"anything-but": {"prefix": ""}}, {"anything-but": {"suffix": ["a", 1]}}, {"anything-but": {"wildcard": []}}]
		},
		"$or": [{"subject": [1]}],
		"channels": ["x"]
	}`))
	want := []string{
		`source must be one of $or, data, type, subject, channels, metadata, internal`,
		`type must be an array of values`,
		`metadata must be an object of conditions`,
		`data.order.status[1].prefix must be a string`,
		`data.order.status[2].numeric must be [operator, number]`,
		`data.order.status[3].like must be one of anything-but, cidr, equals-ignore-case, exists, numeric, prefix, suffix, wildcard`,
		`data.order.status[4] must be a string, a number, true, false, null or an operator`,
		`data.order.status[5] must have exactly one operator`,
		`data.order.status[6] must have exactly one operator`,
		`data.order.no must have a value`,
		`data.empty must have a field`,
		`data.plain must be an array of values, or an object of conditions`,
		`data.dup must not be there twice`,
		`data["a.b"][0].cidr must be a block of IPv4 or IPv6 addresses`,
		`data["a.b"][1].cidr must be a block of IPv4 or IPv6 addresses`,
		`data["a.b"][2].cidr must be a block of IPv4 or IPv6 addresses`,
		`data.n[0].numeric must be [operator, number]`,
		`data.n[1].numeric must be a range whose lower end is less`,
		`data.n[2].numeric must be [operator, number]`,
		`data.n[3].numeric must be [operator, number]`,
		`data.n[4].numeric must be [operator, number]`,
		`data.e[0].exists must be true or false`,
		`data.e[1].equals-ignore-case must be a string`,
		`data.e[2].prefix must be a string or {"equals-ignore-case": string}`,
		`data.e[3].suffix.equals-ignore-case must be a string`,
		`data.w[0].wildcard must not have two * in a row`,
		`data.w[1].wildcard must have * or \ after each \`,
		`data.w[2].wildcard must have * or \ after each \`,
		`data.w[3].wildcard must have at most 16 *`,
		`data.b[0].anything-but must be a string, a number, a list or an operator`,
		`data.b[1].anything-but must have a value`,
		`data.b[2].anything-but[1] must be in a list of strings or in a list of numbers`,
		`data.b[3].anything-but[0] must be in a list of strings or in a list of numbers`,
		`data.b[4].anything-but must have exactly one operator: prefix, suffix, equals-ignore-case or wildcard`,
		`data.b[5].anything-but.prefix must not be empty`,
		`data.b[6].anything-but.suffix[1] must be a string`,
		`data.b[7].anything-but.wildcard must have a value`,
		`$or must be an array of at least two objects`,
	}
	faults := postrider.Faults(err)
	for i := range max(len(want), len(faults)) {
		if i >= len(faults) || i >= len(want) || !strings.HasPrefix(faults[i].Error(), "filter."+want[i]) {
			t.Fatalf("fault %d is wrong: %v; the faults are\n%v", i, want[min(i, len(want)-1)], err)
		}
	}
}

func TestWholePatternsAreRefused(t *testing.T) {
	t.Parallel()
	deep := func(n int) string {
		return `{"data": ` + strings.Repeat(`{"a": `, n-1) + `[1]` + strings.Repeat(`}`, n)
	}
	values := func(n int) string {
		return `{"subject": [` + strings.Join(slices.Repeat([]string{`"a"`}, n-2), ",") + `], "type": [{"anything-but": ["b"]}]}`
	}
	ors := func(branches ...int) string {
		var fields []string
		for i, n := range branches {
			fields = append(fields, fmt.Sprintf(`"o%d": {"$or": [%s]}`, i, strings.Join(slices.Repeat([]string{`{"f": [1]}`}, n), ",")))
		}
		return `{"data": {` + strings.Join(fields, ",") + `}}`
	}
	for _, tt := range []struct{ name, pattern, want string }{
		{"nothing", ``, "filter must be JSON: unexpected end of JSON input"},
		{"no JSON", `{"data": }`, "filter must be JSON: invalid character '}' looking for beginning of value"},
		{"no object", `[1]`, "filter must be an object"},
		{"empty", `{}`, "filter must have a field"},
		{"no UTF-8", "{\"data\": [\"\xff\"]}", "filter must be UTF-8"},
		{"as large as possible", `{"type": ["a"]}` + strings.Repeat(" ", filter.MaxBytes-15), ""},
		{"too large", `{"type": ["a"]}` + strings.Repeat(" ", filter.MaxBytes-14), "filter must be at most 16384 bytes"},
		{"as deep as possible", deep(filter.MaxDepth), ""},
		{"too deep", deep(filter.MaxDepth + 1), "filter.data" + strings.Repeat(".a", filter.MaxDepth-1) + " must not be in more than 32 objects"},
		{"as many values as possible", values(filter.MaxValues), ""},
		{"too many values", values(filter.MaxValues + 1), "filter must have at most 300 values in conditions"},
		{"as many combinations as possible", ors(10, 10, 10), ""},
		{"too many combinations", ors(7, 11, 13), "filter must have at most 1000 combinations of branches of $or"},
		{"a million combinations", ors(10, 10, 10, 10, 10, 10), "filter must have at most 1000 combinations of branches of $or"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := filter.Parse([]byte(tt.pattern))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if faults := postrider.Faults(err); len(faults) == 0 || faults[0].Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestFieldsMayBeExcluded(t *testing.T) {
	t.Parallel()
	_, err := filter.Parse([]byte(`{"internal": {"a": [1]}, "$or": [{"data": {"internal": [1]}}, {"internal": {"b": []}}], "data": 1}`), "internal")
	var got []string
	for _, fault := range postrider.Faults(err) {
		got = append(got, fault.Field)
	}
	if want := []string{"filter.internal", "filter.$or[1].internal", "filter.data"}; !slices.Equal(got, want) {
		t.Errorf("faults of %q, want %q", got, want)
	}
}

func TestFaultsAreAtMostAHundred(t *testing.T) {
	t.Parallel()
	_, err := filter.Parse([]byte(`{"type": [` + strings.Repeat(`{},`, 400) + `1]}`))
	if n := len(postrider.Faults(err)); n != 100 {
		t.Errorf("%d faults, want 100", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"data": {"a": ["x", 1, null, {"prefix": "a"}, {"anything-but": {"wildcard": ["*a\\*", "b"]}}], "$or": [{"b": [2]}, {"c": [{"exists": false}]}]}}`),
		[]byte(`{"a": [{"b": 1}, "x"], "c": -1.5e3}`))
	f.Add([]byte(`{"type": [{"numeric": [">", 1e5, "<=", 2e5]}, {"cidr": "::1/128"}]}`), []byte(`"\ud800"`))
	f.Fuzz(func(t *testing.T, pattern, data []byte) {
		p, err := filter.Parse(pattern)
		if err != nil {
			faults := postrider.Faults(err)
			if len(faults) == 0 || len(faults) > 100 || !errors.Is(err, postrider.ErrInvalid) {
				t.Fatalf("%d faults: %v", len(faults), err)
			}
			for _, fault := range faults {
				if !strings.HasPrefix(fault.Field, "filter") {
					t.Errorf("a fault of %q", fault.Field)
				}
			}
			return
		}
		e := &filter.Event{Data: data, Type: string(data), Metadata: map[string]string{"a": "b"}}
		agree(t, p, string(pattern), e)
		e.Previous = pattern
		if e.Changed(string(data)) && !e.Changed("$") {
			t.Errorf("%s has changed, and $ has not", data)
		}
	})
}
