package apitypes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

func TestAFieldIsLeftOutNullOrHasAValue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy apitypes.Policy
		json   string
	}{
		{apitypes.Policy{}, `{}`},
		{apitypes.Policy{AdaptiveTimeout: apitypes.Of(false), Concurrency: apitypes.Of(0)}, `{"concurrency":0,"adaptive_timeout":false}`},
		{apitypes.Policy{Auth: apitypes.Null[apitypes.Auth](), TLS: apitypes.Null[apitypes.TLS]()}, `{"auth":null,"tls":null}`},
		{apitypes.Policy{Auth: apitypes.Of(apitypes.Auth{Type: postrider.AuthBearer, Token: "t"})}, `{"auth":{"type":"bearer","token":"t"}}`},
		{apitypes.Policy{Headers: apitypes.Of([]apitypes.Header{})}, `{"headers":[]}`},
		{
			apitypes.Policy{Headers: apitypes.Of([]apitypes.Header{
				{Name: "A", Value: apitypes.Of("")}, {Name: "B", Sensitive: true}, {Name: "C", Value: apitypes.Null[string](), Sensitive: true},
			})},
			`{"headers":[{"name":"A","value":"","sensitive":false},{"name":"B","sensitive":true},{"name":"C","value":null,"sensitive":true}]}`,
		},
		{
			apitypes.Policy{Signature: apitypes.Of(apitypes.Signature{Schemes: []apitypes.Scheme{
				{Scheme: "standard"},
				{Scheme: "github", Header: "X-A", Prefix: "p="},
			}})},
			`{"signature":{"schemes":["standard",{"scheme":"github","header":"X-A","prefix":"p="}]}}`,
		},
	} {
		text, err := json.Marshal(tt.policy)
		if err != nil || string(text) != tt.json {
			t.Errorf("encoded %s, %v; want %s", text, err, tt.json)
		}
		var read apitypes.Policy
		err = json.Unmarshal([]byte(tt.json), &read)
		if again, _ := json.Marshal(read); err != nil || string(again) != tt.json {
			t.Errorf("decoded %s as %s, %v", tt.json, again, err)
		}
	}
}

func TestAValueIsToldFromNull(t *testing.T) {
	t.Parallel()
	left, null, value := apitypes.Optional[int]{}, apitypes.Null[int](), apitypes.Of(0)
	for name, tt := range map[string]struct {
		field             apitypes.Optional[int]
		isZero, null, has bool
	}{"left out": {left, true, false, false}, "null": {null, false, true, false}, "a value": {value, false, false, true}} {
		if _, has := tt.field.Get(); has != tt.has || tt.field.IsNull() != tt.null || tt.field.IsZero() != tt.isZero {
			t.Errorf("%s: Get %t, IsNull %t, IsZero %t", name, has, tt.field.IsNull(), tt.field.IsZero())
		}
	}
	if !apitypes.OfPointer[int](nil).IsZero() || apitypes.OfPointer(new(7)).Value() != 7 || !apitypes.NullUnless(false, 7).IsNull() {
		t.Error("OfPointer or NullUnless make another field")
	}
}

func TestTimesHaveMicrosecondsInUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.FixedZone("", 3600))
	const want = `"2026-11-21T05:00:00.000000Z"`
	text, err := json.Marshal(apitypes.Time{Time: at})
	if err != nil || string(text) != want {
		t.Errorf("encoded %s, %v; want %s", text, err, want)
	}
	for _, text := range []string{want, `"2026-11-21T06:00:00+01:00"`} {
		var read apitypes.Time
		if err := json.Unmarshal([]byte(text), &read); err != nil || !read.Equal(at) {
			t.Errorf("decoded %s as %s, %v", text, read, err)
		}
	}
	if err := new(apitypes.Time).UnmarshalText([]byte("tomorrow")); err == nil || err.Error() != "must be a time, by RFC 3339" {
		t.Errorf("tomorrow: %v", err)
	}
}

func TestSecretsAreInNoText(t *testing.T) {
	t.Parallel()
	policy := apitypes.Policy{
		Auth: apitypes.Of(apitypes.Auth{Type: "basic", Password: "hush"}), TLS: apitypes.Of(apitypes.TLS{Key: "hush"}),
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, policy.Auth.Value()) + fmt.Sprintf(verb, policy) +
			fmt.Sprintf(verb, apitypes.EndpointCreate{Policy: policy}); strings.Contains(text, "hush") {
			t.Errorf("%s shows a secret: %s", verb, text)
		}
	}
}
