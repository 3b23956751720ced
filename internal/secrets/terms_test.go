package secrets_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
)

func paths(t testing.TB, texts ...string) (list []postrider.Path) {
	t.Helper()
	for _, text := range texts {
		path, err := postrider.ParsePath("path", text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, path)
	}
	return list
}

// sought is a value that is searched.
type sought struct {
	account     postrider.AccountID
	path, value string
}

// finds reports whether a search with the vault would find an event with the terms.
func finds(t *testing.T, v *secrets.Vault, terms []store.Term, s sought) bool {
	t.Helper()
	wanted, err := v.Terms(t.Context(), s.account, paths(t, s.path), []string{"none", s.value})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(wanted, func(term store.Term) bool { return slices.Contains(terms, term) })
}

func TestTermsDependOnAllThatTheyStandFor(t *testing.T) {
	t.Parallel()
	v, account := secrets.New(signingKeyring(t, "a")), postrider.AccountID{1}
	event := &postrider.Event{Account: account, Data: []byte(`{"a": "x", "b": ["y", "y"]}`)}
	terms := v.EventTerms(event, paths(t, "$.a", "$.b"))
	if len(terms) != 2 || !slices.Equal(terms, v.EventTerms(event, paths(t, "$.a", "$.b"))) {
		t.Fatalf("the terms are %v", terms)
	}
	for s, want := range map[sought]bool{
		{account, "$.a", "x"}:                true,
		{account, "$.b", "y"}:                true,
		{account, "$.a", "y"}:                false,
		{account, "$.b", "x"}:                false,
		{account, "$.a", ""}:                 false,
		{postrider.AccountID{2}, "$.a", "x"}: false,
	} {
		if got := finds(t, v, terms, s); got != want {
			t.Errorf("%+v is found: %v", s, got)
		}
	}
}

func TestTermsOfAnOlderKeyAreFoundUntilItIsDropped(t *testing.T) {
	t.Parallel()
	old, rotated, other := secrets.New(signingKeyring(t, "a")), secrets.New(signingKeyring(t, "ab")), secrets.New(signingKeyring(t, "b"))
	event := &postrider.Event{Data: []byte(`{"a": "x"}`)}
	terms := old.EventTerms(event, paths(t, "$.a"))
	if !finds(t, rotated, terms, sought{path: "$.a", value: "x"}) {
		t.Error("after a rotation the event is not found")
	}
	if finds(t, other, terms, sought{path: "$.a", value: "x"}) {
		t.Error("without its key the event is found")
	}
	if !slices.Equal(rotated.EventTerms(event, paths(t, "$.a")), other.EventTerms(event, paths(t, "$.a"))) {
		t.Error("a new event does not have the terms of the newest key")
	}
}

func TestAnEventHasATermForEachOfItsFirstValues(t *testing.T) {
	t.Parallel()
	data := []byte(`{"a":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22],"b":1}`)
	v := secrets.New(signingKeyring(t, "a"))
	terms := v.EventTerms(&postrider.Event{Data: data}, paths(t, "$.a", "$.b"))
	last, next := finds(t, v, terms, sought{path: "$.a", value: "20"}), finds(t, v, terms, sought{path: "$.a", value: "21"})
	if len(terms) != store.MaxTerms || !last || next {
		t.Errorf("%d terms, want those of the first %d values", len(terms), store.MaxTerms)
	}
}

func BenchmarkEventTerms(b *testing.B) {
	v := secrets.New(signingKeyring(b, "a"))
	event := &postrider.Event{Data: []byte(`{"order":{"number":42,"customer":"cus_1","lines":[{"sku":"a"}],"total":12.5,"paid":true},"text":"` +
		strings.Repeat("lorem ipsum ", 70) + `"}`)}
	of := paths(b, "$.order.number", "$.order.customer", "$.order.total", "$.order.lines.sku", "$.order.paid")
	b.ReportAllocs()
	for b.Loop() {
		if n := len(v.EventTerms(event, of)); n != len(of) {
			b.Fatal(n)
		}
	}
}
