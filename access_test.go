package postrider_test

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

func TestAllows(t *testing.T) {
	t.Parallel()
	acme := postrider.AccountID{1}
	with := func(scopes ...postrider.Scope) postrider.Caller { return postrider.Caller{Scopes: scopes} }
	for _, tt := range []struct {
		name   string
		caller postrider.Caller
		want   []postrider.Scope
	}{
		{"admin includes every scope", with(postrider.ScopeAdmin), postrider.Scopes},
		{"an admin of one account is none", postrider.Caller{Scopes: postrider.Scopes[6:], Account: acme}, postrider.Scopes[:6]},
		{"writing includes four scopes", with(postrider.ScopeWebhooksWrite), postrider.Scopes[1:6]},
		{"reading is reading", with(postrider.ScopeWebhooksRead), []postrider.Scope{postrider.ScopeWebhooksRead}},
		{"operating is operating", with(postrider.ScopeWebhooksOperate), []postrider.Scope{postrider.ScopeWebhooksOperate}},
		{"changing endpoints shows no secrets", with(postrider.ScopeEndpointsWrite), []postrider.Scope{postrider.ScopeEndpointsWrite}},
		{"showing secrets is showing secrets", with(postrider.ScopeSecretsRead), []postrider.Scope{postrider.ScopeSecretsRead}},
		{"publishing is publishing", with(postrider.ScopeEventsWrite), []postrider.Scope{postrider.ScopeEventsWrite}},
		{"a caller without scopes may do nothing", with(), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []postrider.Scope
			for _, scope := range postrider.Scopes {
				if tt.caller.Allows(scope) {
					got = append(got, scope)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("allows %v, want %v", got, tt.want)
			}
		})
	}
}

func TestMaySet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options []string
		want    bool
	}{{nil, true}, {[]string{}, false}, {[]string{"retry"}, false}, {[]string{"retry", "rate"}, true}} {
		if got := (postrider.Caller{Options: tt.options}).MaySet("rate"); got != tt.want {
			t.Errorf("with the options %#v: %t, want %t", tt.options, got, tt.want)
		}
	}
}

func TestAKeyIsActiveUntilItExpiresOrIsRevoked(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		key  postrider.APIKey
		want bool
	}{
		{"a key without an end", postrider.APIKey{}, true},
		{"a key that expires now", postrider.APIKey{ExpiresAt: now}, false},
		{"a key that expires later", postrider.APIKey{ExpiresAt: now.Add(1)}, true},
		{"a revoked key, whatever the clock says", postrider.APIKey{RevokedAt: now.Add(time.Hour)}, false},
	} {
		if got := tt.key.ActiveAt(now); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
