package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// flagNames has the names of one command line. It translates the faults of an API response, which
// name fields of the request, into the flags and arguments that the person typed. For example, with
// endpoints create:
//
//	timeout_ms must be 1000 to 30000  →  --timeout: must be 1s to 30s
//	headers[0].name …                 →  --header: name …
//
// The server checks the limits, and the command line knows the names. So no limit is written twice.
type flagNames struct {
	// The flags and arguments of the command by name, also those that were not given.
	flags     map[string]bool
	arguments map[string]bool
	// The value of each flag and argument, as a text; empty: not given.
	values map[string]string
	// headers is how many headers came from --header. In the request, the headers from
	// --secret-header follow them.
	headers int
}

// flagNamesOf returns the names of the parsed command. They are empty if the command
// line could not be parsed.
func flagNamesOf(parsed *kong.Context) flagNames {
	w := flagNames{flags: map[string]bool{}, arguments: map[string]bool{}, values: map[string]string{}}
	if parsed == nil || parsed.Selected() == nil {
		return w
	}
	for _, f := range parsed.Flags() {
		w.flags[f.Name] = true
		w.values[f.Name] = fmt.Sprint(parsed.FlagValue(f))
		if given, ok := parsed.FlagValue(f).([]string); ok && f.Name == "header" {
			w.headers = len(given)
		}
	}
	for _, p := range parsed.Selected().Positional {
		w.arguments[p.Name] = true
		w.values[p.Name] = fmt.Sprint(p.Target.Interface())
	}
	return w
}

// faults returns the faults of a request in one line, with the names of the
// command.
func (w flagNames) faults(fields []apitypes.Fault) string {
	var texts []string
	for _, f := range fields {
		texts = append(texts, strings.TrimSpace(w.fault(f)))
	}
	return strings.Join(texts, "; ")
}

// fault returns the text of one fault. It names the flag or argument for the field; if the command
// has none, it names the field. Milliseconds become durations, which the flag accepts. In a batch
// from a file it names the event by its number, counted from 1:
//
//	events[3].type must …  →  orders.jsonl: event 4: type must …
func (w flagNames) fault(f apitypes.Fault) string {
	name, part := w.of(f.Field)
	if event, ok := strings.CutPrefix(f.Field, "events["); ok && w.arguments["file"] {
		n, field, _ := strings.Cut(event, "].")
		if i, err := strconv.Atoi(n); err == nil {
			return fmt.Sprintf("%s: event %d: %s %s", sourceName(w.values["file"]), i+1, field, f.Reason)
		}
	}
	if name == "" {
		return f.Field + " " + f.Reason
	}
	if f.Code == postrider.FaultNotFound && (f.Field == "account" || f.Field == "new_account" || f.Field == "table.fixed_account") {
		return name + ": there is no account " + shorten(w.values[strings.ToLower(strings.TrimPrefix(name, "--"))]) +
			"; postrider accounts list shows them"
	}
	reason := f.Reason
	// Flags with JSON use the names and units of the API.
	if name != "--retry" && name != "--circuit" && name != "--filter" && name != "--condition" {
		if plain, isTime := strings.CutSuffix(part, "_ms"); isTime || strings.HasSuffix(f.Field, "_ms") {
			part = plain
			if f.Min != nil && f.Max != nil && reason == postrider.OutOfRange("", *f.Min, *f.Max).Reason {
				reason = "must be " + inFlag(*f.Min) + " to " + inFlag(*f.Max)
			}
		}
	}
	if part == "preset" { // without JSON, the flag contains only the preset
		part = ""
	}
	return name + ": " + strings.TrimSpace(part+" "+reason)
}

// nextStep returns the command that removes the cause of a conflict, as a line of its own. It is
// empty if no command is known. The server's code is for every client, so it names the state and
// not the command.
func (w flagNames) nextStep(conflict *client.Error) string {
	switch id := w.values["id"]; {
	case conflict.Code == "unverified":
		return "\nRun postrider endpoints verify " + id
	case conflict.Code == "endpoint_paused":
		return "\nRun postrider endpoints resume " + id
	case conflict.Code == "endpoint_not_paused":
		return "\nRun postrider endpoints pause " + id
	case conflict.Code == "endpoint_disabled":
		return "\nRun postrider endpoints enable " + id
	case conflict.Replay != "":
		return "\nRun postrider deliveries get " + conflict.Replay
	}
	return ""
}

// inFlag returns milliseconds in the form of a duration flag, without zeros at the end: 2160h.
func inFlag(ms int64) string {
	text := span(ms)
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// flagOf maps fields to flags with another name. A field whose flag has the same name needs no
// entry: timeout_ms is --timeout, auth.token_url is --auth-token-url. If a field has no entry and
// no flag of its name, the flag of the field above it is used.
var flagOf = map[string]string{
	"url": "endpoint-url", "headers": "header", "secret": "secret-file", "secrets": "secret-file",
	"auth.username": "auth-user", "auth.password": "auth-secret-file", "auth.token": "auth-secret-file",
	"auth.key": "auth-secret-file", "auth.client_secret": "auth-secret-file", "auth.type": "auth",
	"tls": "tls-cert", "tls.certificate": "tls-cert", "tls.key": "tls-key", "tls.authorities": "tls-authorities",
	"password": "password-file", "table.name": "table", "table.id": "id-column", "table.order": "order-column",
	"table.account": "account-column", "table.fixed_account": "fixed-account", "table.type": "type-column", "table.data": "data-column",
	"table.ordering_key": "ordering-key-column", "scopes": "scope", "expires_at": "expires", "status": "set", "channels": "channel",
	"changed_paths": "changed-path",
}

// index matches the position of an element in a field's name.
var index = regexp.MustCompile(`\[\d+\]`)

// of returns the command's name for a field, and the part of the field that the name does not
// cover. auth.scopes[1] is --auth-scopes; retry.delays_ms[2] is --retry with the part delays_ms[2].
// It tries the field first and then the fields above it. If the command has no name for any of
// them, both results are empty.
func (w flagNames) of(field string) (name, part string) {
	var header int
	// The request has the headers of both flags in one list, first the headers of --header. So the
	// position shows which flag a header came from.
	if n, err := fmt.Sscanf(field, "headers[%d]", &header); n == 1 && err == nil && header >= w.headers {
		_, part, _ = strings.Cut(field, "].")
		return "--secret-header", part
	}
	// The field's own flag comes before the flag of the field above: auth.username is --auth-user
	// and not --auth.
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

// above returns the field that contains the given one; empty for a field at the top.
func above(field string) string {
	if i := strings.LastIndexByte(field, '.'); i >= 0 {
		return field[:i]
	}
	return ""
}
