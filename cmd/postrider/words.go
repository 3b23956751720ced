package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/apitypes"
)

// words are the names that a command line has for what the API calls
// otherwise.
type words struct {
	flags     map[string]bool
	arguments map[string]bool
	headers   int // given with --header; those after them are of --secret-header
}

// wordsOf returns the words of the command that was parsed, which may be none.
func wordsOf(parsed *kong.Context) words {
	w := words{flags: map[string]bool{}, arguments: map[string]bool{}}
	if parsed == nil || parsed.Selected() == nil {
		return w
	}
	for _, f := range parsed.Flags() {
		w.flags[f.Name] = true
		if given, ok := parsed.FlagValue(f).([]string); ok && f.Name == "header" {
			w.headers = len(given)
		}
	}
	for _, p := range parsed.Selected().Positional {
		w.arguments[p.Name] = true
	}
	return w
}

// faults returns what is wrong with a request, in one line, with the command's
// names: its flags and arguments, as the person typed them.
func (w words) faults(fields []apitypes.Fault) string {
	var texts []string
	for _, f := range fields {
		texts = append(texts, strings.TrimSpace(w.fault(f)))
	}
	return strings.Join(texts, "; ")
}

func (w words) fault(f apitypes.Fault) string {
	name, part := w.of(f.Field)
	if event, ok := strings.CutPrefix(f.Field, "events["); ok && w.arguments["file"] {
		n, field, _ := strings.Cut(event, "].")
		if i, err := strconv.Atoi(n); err == nil {
			return fmt.Sprintf("FILE: event %d: %s %s", i+1, field, f.Reason)
		}
	}
	if name == "" {
		return f.Field + " " + f.Reason
	}
	reason := f.Reason
	// Of what a flag takes as JSON, the names and numbers are the API's.
	if name != "--retry" && name != "--circuit" {
		if plain, isTime := strings.CutSuffix(part, "_ms"); isTime || strings.HasSuffix(f.Field, "_ms") {
			part, reason = plain, number.ReplaceAllStringFunc(reason, asSpan)
		}
	}
	if part == "preset" { // which is all that the flag has when it is no JSON
		part = ""
	}
	return name + ": " + strings.TrimSpace(part+" "+reason)
}

var number = regexp.MustCompile(`\d{3,}`)

// asSpan returns milliseconds as flags take them.
func asSpan(ms string) string {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return ms
	}
	return span(n)
}

// flagOf are the flags of fields with another name. A field without a flag is a
// part of the one above it.
var flagOf = map[string]string{
	"url": "endpoint-url", "headers": "header", "secret": "secret-file", "secrets": "secret-file",
	"auth.username": "auth-user", "auth.password": "auth-secret-file", "auth.token": "auth-secret-file",
	"auth.key": "auth-secret-file", "auth.client_secret": "auth-secret-file", "auth.type": "auth",
	"tls": "tls-cert", "tls.certificate": "tls-cert", "tls.key": "tls-key", "tls.authorities": "tls-authorities",
	"scopes": "scope", "expires_at": "expires", "status": "set",
}

var index = regexp.MustCompile(`\[\d+\]`)

// of returns the command's name for a field, and what of the field the name
// leaves out. The name is empty where the command has none.
func (w words) of(field string) (name, part string) {
	var header int
	if n, err := fmt.Sscanf(field, "headers[%d]", &header); n == 1 && err == nil && header >= w.headers {
		_, part, _ = strings.Cut(field, "].")
		return "--secret-header", part
	}
	for whole := field; whole != ""; whole = above(whole) {
		bare := index.ReplaceAllString(whole, "")
		plain := strings.NewReplacer(".", "-", "_", "-").Replace(strings.TrimSuffix(bare, "_ms"))
		for _, word := range []string{flagOf[bare], plain} {
			part = strings.TrimPrefix(strings.TrimPrefix(field, whole), ".")
			switch {
			case word != "" && w.flags[word]:
				return "--" + word, part
			case word != "" && w.arguments[word]:
				return strings.ToUpper(word), part
			}
		}
	}
	return "", ""
}

// above returns the field that has the field in it; empty: none.
func above(field string) string {
	if i := strings.LastIndexByte(field, '.'); i >= 0 {
		return field[:i]
	}
	return ""
}
