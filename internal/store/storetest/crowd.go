package storetest

import (
	_ "embed"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// Dialect has a database's own words for [Crowd]. $1, $2 are what stands between the brackets.
type Dialect struct {
	ID      string // id(kind, number): an id made so many milliseconds after @base
	Literal string // literal(digits): an id
	Hash    string // hash(number): 32 bytes
	Rows    string // rows(n): n rows of the column i, from 1 on
	Bytes   string // bytes(digits)
	Texts   string // texts(text): a list of one text
}

var (
	idWord      = regexp.MustCompile(`\bid\(([^,()]*), ([^()]*)\)`)
	literalWord = regexp.MustCompile(`\bliteral\((\w+)\)`)
	hashWord    = regexp.MustCompile(`\bhash\(([^()]*)\)`)
	rowsWord    = regexp.MustCompile(`\brows\((\d+)\)`)
	bytesWord   = regexp.MustCompile(`\bbytes\((\w+)\)`)
	textsWord   = regexp.MustCompile(`\btexts\(([^()]*)\)`)
)

//go:embed crowd.sql
var crowdSQL string

// Crowd returns the statements that insert about 200,000 rows.
//
// Nearly all rows belong to one account and one endpoint; both have the id [Most]. The 20 oldest
// rows of each table belong to another account and endpoint. Few rows have the type "rare". The
// newer half of the dead letters is resolved. A third endpoint has only failed attempts.
func Crowd(d Dialect, base time.Time) string {
	counts, _ := (&postrider.Counts{}).AppendBinary(nil) // never returns an error
	text := strings.NewReplacer(
		"{account}", `case when i <= 20 then literal(12) when i % 10 = 0 then id(1, i % 200) else literal(11) end`,
		"{endpoint}", `case when i <= 20 then literal(12) when i % 10 = 0 then id(2, i % 200) when i % 10 = 9 then literal(13)
			else literal(11) end`,
		"{counts}", hex.EncodeToString(counts),
		"{type}", `case when i % 5000 = 7 then 'rare' else 'common' end`,
	).Replace(crowdSQL)
	text = literalWord.ReplaceAllStringFunc(text, func(word string) string {
		digits := literalWord.FindStringSubmatch(word)[1]
		return strings.ReplaceAll(d.Literal, "$1", strings.Repeat("0", 32-len(digits))+digits)
	})
	for _, word := range []struct {
		pattern *regexp.Regexp
		means   string
	}{{idWord, d.ID}, {hashWord, d.Hash}, {rowsWord, d.Rows}, {bytesWord, d.Bytes}, {textsWord, d.Texts}} {
		text = word.pattern.ReplaceAllString(text, word.means)
	}
	return strings.ReplaceAll(text, "@base", strconv.FormatInt(base.UnixMilli(), 10))
}
