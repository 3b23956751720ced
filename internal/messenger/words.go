package messenger

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed text/*.json
var textFiles embed.FS

// catalogues has the texts of messages by language. Each language is a file in the folder text.
var catalogues = readCatalogues()

// readCatalogues reads the embedded texts.
func readCatalogues() map[string]map[string]string {
	all := map[string]map[string]string{}
	files, err := textFiles.ReadDir("text")
	if err != nil {
		panic(fmt.Errorf("read catalogues: %w", err))
	}
	for _, file := range files {
		content, err := textFiles.ReadFile("text/" + file.Name())
		if err != nil {
			panic(fmt.Errorf("read catalogue: %w", err))
		}
		texts := map[string]string{}
		if err := json.Unmarshal(content, &texts); err != nil {
			panic(fmt.Errorf("catalogue %s: %w", file.Name(), err))
		}
		all[strings.TrimSuffix(file.Name(), path.Ext(file.Name()))] = texts
	}
	return all
}

// words has the texts of one language.
type words struct {
	language string
	texts    map[string]string
}

// wordsOf returns the texts of a language. If the language is missing, it returns English.
func wordsOf(language string) words {
	if texts, ok := catalogues[language]; ok {
		return words{language, texts}
	}
	return words{"en", catalogues["en"]}
}

// get returns the text of the key. args are names and values in turn, which replace {name} in the
// text. If the key has no text, get returns the key; tests find such keys.
func (w words) get(key string, args ...string) string {
	text, ok := w.texts[key]
	if !ok {
		return key
	}
	pairs := make([]string, 0, len(args))
	for i := 0; i+1 < len(args); i += 2 {
		pairs = append(pairs, "{"+args[i]+"}", args[i+1])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// number returns a number of at least 0, with separators between the thousands.
func (w words) number(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + w.get("thousands") + digits[at:]
	}
	return digits
}

// detail returns a detail of a notice for people. A time is shown in UTC, and a code as its text.
func (w words) detail(name, value string) string {
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return at.UTC().Format("2006-01-02 15:04 UTC")
	}
	if text, ok := w.texts["detail."+name+"."+value]; ok {
		return text
	}
	return value
}
