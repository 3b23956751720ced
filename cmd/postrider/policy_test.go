package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/apitypes"
)

// flagsFor has a flag with a value for each option of an endpoint. A boolean option needs no row,
// because its flag is its name.
var flagsFor = map[string]string{
	"filter": `--filter={"type":["a"]}`, "changed": "--changed=$.a", "channels": "--channels=a", "condition": "--condition=true",
	"retry": "--retry=seven-step", "timeout_ms": "--timeout=5s", "client_errors": "--client-errors=dead_letter",
	"concurrency": "--concurrency=3",
	"expiry_ms":   "--expiry=1h", "signature": "--signature=standard", "payload": "--payload=raw", "circuit": "--circuit=strict",
	"rate": "--rate=100/1s", "order": "--order=by_key", "on_dead": "--on-dead=pause", "headers": "--header=X-Tenant=acme",
	"auth": "--auth=bearer", "tls": "--no-tls", "max_redirects": "--max-redirects=1", "compression": "--compression=gzip",
}

// TestEveryOptionOfAnEndpointHasAFlag compares the command line with the API. Each field of a
// policy must have a flag, which sets that field and no other. The details of an endpoint must have
// a row for each field.
func TestEveryOptionOfAnEndpointHasAFlag(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	var e apitypes.Endpoint
	unreadable := len(detailsOf(e)) // without any field of the policy
	for _, field := range reflect.ValueOf(&e.Policy).Elem().Fields() {
		field.Addr().Interface().(interface{ SetNull() }).SetNull()
	}
	if n := len(detailsOf(e)) - unreadable; n != reflect.TypeFor[apitypes.Policy]().NumField() {
		t.Errorf("the details of an endpoint whose policy can be read have %d rows more, want one for each field of the policy", n)
	}
	for _, row := range detailsOf(e) {
		shown[row[0]] = true
	}
	for field := range reflect.TypeFor[apitypes.Policy]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		flag := flagsFor[name]
		if field.Type == reflect.TypeFor[apitypes.Optional[bool]]() {
			flag = "--" + strings.ReplaceAll(name, "_", "-")
		}
		var flags policyFlags
		parser, err := kong.New(&flags)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse([]string{flag}); err != nil || flag == "" {
			t.Errorf("%s: policyFlags has no flag %q: %v", name, flag, err)
			continue
		}
		policy, err := flags.policy(terminal{})
		if err != nil {
			t.Fatal(err)
		}
		for other, value := range reflect.ValueOf(policy).Fields() {
			if set := !value.IsZero(); set != (other.Name == field.Name) {
				t.Errorf("%s: policyFlags.policy sets %s: %t", flag, other.Name, set)
			}
		}
		if label := strings.ReplaceAll(strings.TrimSuffix(name, "_ms"), "_", " "); !shown[label] {
			t.Errorf("%s: the details of an endpoint have no row %q", name, label)
		}
	}
}
