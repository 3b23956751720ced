// Package text has the texts of the pages in each language, and writes numbers, lengths of time and
// the words of the API as a language does. A language is one file, LANGUAGE.json.
package text

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

//go:embed *.json
var textFiles embed.FS

// Texts has the catalogue of each language. A language is one file of the folder
// text: its texts by key. A text has its arguments as {name}. A text that depends
// on a number is an object with the forms one and other; the argument n decides.
type Texts struct {
	Catalogues map[string]*Catalogue // by language
	Languages  []string              // sorted; English is the default
}

// Catalogue has the texts of one language.
type Catalogue struct {
	Language string
	texts    map[string]text
	Missing  func(key string) // called for a key without a text; nil in production
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

// New reads the catalogues that the program was built with.
func New() *Texts {
	all := &Texts{Catalogues: map[string]*Catalogue{}}
	files, err := textFiles.ReadDir(".")
	if err != nil {
		panic(fmt.Errorf("read catalogues: %w", err))
	}
	for _, file := range files {
		content, err := textFiles.ReadFile(file.Name())
		if err != nil {
			panic(fmt.Errorf("read catalogue: %w", err))
		}
		c := &Catalogue{Language: strings.TrimSuffix(file.Name(), path.Ext(file.Name()))}
		if err := json.Unmarshal(content, &c.texts); err != nil {
			panic(fmt.Errorf("catalogue %s: %w", file.Name(), err))
		}
		all.Catalogues[c.Language] = c
	}
	all.Languages = slices.Sorted(maps.Keys(all.Catalogues))
	return all
}

// Choose returns the catalogue of the first wish that has one, else the English catalogue. A wish
// is a language such as de or de-AT, or a header Accept-Language.
func (t *Texts) Choose(wishes ...string) *Catalogue {
	for _, wish := range wishes {
		for language := range strings.SplitSeq(wish, ",") { // browsers send the preferred language first
			language, _, _ = strings.Cut(strings.TrimSpace(language), ";")
			language, _, _ = strings.Cut(language, "-")
			if c, ok := t.Catalogues[strings.ToLower(language)]; ok {
				return c
			}
		}
	}
	return t.Catalogues["en"]
}

// Has reports whether the catalogue has the key.
func (c *Catalogue) Has(key string) bool {
	_, ok := c.texts[key]
	return ok
}

// Under returns the texts whose keys begin with the prefix, by the rest of the key.
func (c *Catalogue) Under(prefix string) map[string]string {
	found := map[string]string{}
	for key, said := range c.texts {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			found[rest] = said.other
		}
	}
	return found
}

// Get returns the text of the key, with the arguments filled in: names and values
// in turn. The argument n chooses the form. A key that the catalogue does not
// have is shown itself; tests find it.
func (c *Catalogue) Get(key string, args ...any) string {
	found, ok := c.texts[key]
	if !ok {
		if c.Missing != nil {
			c.Missing(key)
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
		pairs = append(pairs, fmt.Sprintf("{%v}", args[i]), c.Show(args[i+1]))
	}
	return strings.NewReplacer(pairs...).Replace(form)
}
