package app_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/testkit"
)

// canary is a secret that may be found only in the listed places.
type canary struct {
	name    string
	needles []string // its text, and the bytes that the text stands for
	shown   []string // the places
}

// draw returns a random text that appears nowhere else.
func draw() string { return "canary" + rand.Text() + rand.Text() }

// forms returns the forms in which a needle can appear: plain, in hexadecimal, in base64 at any
// offset, in a URL, or in JSON.
func forms(needle string) []string {
	quoted, err := json.Marshal(needle)
	if err != nil {
		panic(err) // of a text
	}
	digits := hex.EncodeToString([]byte(needle))
	all := []string{
		needle, digits, strings.ToUpper(digits), url.QueryEscape(needle), url.PathEscape(needle),
		strings.Trim(string(quoted), `"`), fmt.Sprintf("%q", needle)[1:], strings.Trim(fmt.Sprintf("%d", []byte(needle)), "[]"),
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			encoded := encoding.EncodeToString(append(make([]byte, before), needle...))
			first, last := (before*8+5)/6, len(encoded)
			if (before+len(needle))*8%6 != 0 {
				last-- // it holds bits of what comes after
			}
			all = append(all, encoded[first:last])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// found has everything that the program wrote or sent, by place.
type found struct {
	mu     sync.Mutex
	places map[string]*bytes.Buffer
}

func (f *found) add(place string, text []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.places[place] == nil {
		f.places[place] = &bytes.Buffer{}
	}
	f.places[place].Write(text)
	f.places[place].WriteByte('\n')
}

// where returns the places that hold the needle in any form.
func (f *found) where(needle string) (places []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for place, text := range f.places {
		if slices.ContainsFunc(forms(needle), func(form string) bool { return bytes.Contains(text.Bytes(), []byte(form)) }) {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	return places
}

// want checks that a canary is in no place where it may not be.
func (f *found) want(t *testing.T, c canary) {
	t.Helper()
	for _, needle := range c.needles {
		if len(needle) < 16 {
			t.Errorf("%s: %q is too short to search for", c.name, needle)
		}
		for _, place := range f.where(needle) {
			if !slices.Contains(c.shown, place) {
				t.Errorf("%s is in %s:\n%.2000s", c.name, place, f.places[place].String())
			}
		}
	}
}

var ids = regexp.MustCompile(`/(acc|ep|sec|evt|dlv|key)_[0-9a-z]{26}`)

// RoundTrip sends a request and keeps the whole response.
func (f *found) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	var all bytes.Buffer
	if err := answer.Header.Write(&all); err != nil {
		return nil, err
	}
	all.Write(text)
	f.add(r.Method+" "+ids.ReplaceAllString(r.URL.Path, "/$1"), all.Bytes())
	return answer, nil
}

// stored keeps the bytes of the store: the files of SQLite, or a dump.
func (f *found) stored(t *testing.T, dir, dsn string) {
	t.Helper()
	if dsn != "" {
		text, err := exec.CommandContext(t.Context(), testkit.SharedCluster(t).Bin("pg_dump"), "--inserts", dsn).Output()
		if err != nil {
			t.Fatalf("dump: %v", err)
		}
		f.add("stored", text)
		return
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file.Name() == "admin.key" || file.Name() == "secrets.key" {
			continue // which are there to hold one
		}
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		f.add("stored", text)
	}
}

// TestTheSearchFindsEveryForm plants a canary in each form, with other bytes
// around it.
func TestTheSearchFindsEveryForm(t *testing.T) {
	t.Parallel()
	needle := draw() + `"\ü&/+ `
	quoted, err := json.Marshal("x" + needle + "y")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plain": "x" + needle + "y", "JSON": string(quoted), "Go": fmt.Sprintf("%q", needle), "bytes": fmt.Sprintf("%d", []byte("x"+needle+"y")),
		"hex": hex.EncodeToString([]byte("x" + needle)), "capitals": strings.ToUpper(hex.EncodeToString([]byte(needle))),
		"base64":              base64.StdEncoding.EncodeToString([]byte(needle)),
		"base64, later":       base64.StdEncoding.EncodeToString([]byte("x" + needle + "yz")),
		"base64, later still": base64.URLEncoding.EncodeToString([]byte("xy" + needle)),
		"query":               "?a=" + url.QueryEscape(needle), "path": "/" + url.PathEscape(needle) + "/",
	} {
		f := &found{places: map[string]*bytes.Buffer{}}
		f.add("here", []byte(text))
		f.add("there", []byte("nothing"))
		if got := f.where(needle); !slices.Equal(got, []string{"here"}) {
			t.Errorf("%s: found in %v, want it here", name, got)
		}
	}
}
