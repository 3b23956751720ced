package browser_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPortalIsGerman walks through the portal of a session in German and looks for
// English texts of the catalogue: in what the pages show, and in the names that
// assistive technology reads.
func TestPortalIsGerman(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.destinations(t, "globex", "ann@globex.example")
	foreign := englishTexts(t)
	w.visitors[customer] = newVisitor(t, w.url)
	tb := w.visitors[customer].newTab(t)
	tb.open(w.call(t, "POST /portal-sessions", object{"account": "globex", "locale": "de"}).id("url"))
	tb.click("Weiter")
	tb.find("link", "Endpunkte")
	var paths []string
	for _, route := range w.offered(t) {
		if path, isPage := strings.CutPrefix(route, "GET "); isPage {
			paths = append(paths, path)
		}
	}
	if len(paths) < 10 {
		t.Errorf("the portal offers only %v", paths)
	}
	for _, path := range paths {
		page := parsed(path)
		if !strings.Contains(path, "?") { // with the texts that scripts write
			tb.open(path)
			page = `Promise.resolve(document)`
		}
		shown := eval[[]string](tb, page+`.then(document => {
			const texts = [document.title]
			const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
			while (walk.nextNode()) {
				if (!walk.currentNode.parentElement.closest('code, pre, script, style, [lang="en"]')) texts.push(walk.currentNode.textContent)
			}
			for (const e of document.querySelectorAll('[aria-label], [title], [placeholder], [alt]')) {
				for (const name of ['aria-label', 'title', 'placeholder', 'alt']) texts.push(e.getAttribute(name) ?? '')
			}
			return [document.documentElement.lang, ...texts.map(text => text.trim().replace(/\s+/g, ' ')).filter(text => text)]
		})`)
		if shown[0] != "de" {
			t.Errorf("%s is in the language %q", path, shown[0])
		}
		for _, text := range shown {
			if slices.Contains(foreign, text) {
				t.Errorf("%s shows %q in English", path, text)
			}
		}
	}
}

// englishTexts returns the texts of the English catalogue that are no text of the
// German one. Those with values in them are left out.
func englishTexts(t *testing.T) []string {
	t.Helper()
	read := func(language string) map[string]any {
		file, err := os.ReadFile("../internal/web/text/" + language + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var texts map[string]any
		if err := json.Unmarshal(file, &texts); err != nil {
			t.Fatal(err)
		}
		return texts
	}
	german := map[string]bool{}
	for _, value := range read("de") {
		if text, ok := value.(string); ok {
			german[text] = true
		}
	}
	var english []string
	for _, value := range read("en") {
		if text, ok := value.(string); ok && !german[text] && !strings.Contains(text, "{") {
			english = append(english, text)
		}
	}
	return english
}
