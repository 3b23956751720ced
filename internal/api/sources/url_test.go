package sources

import (
	"strings"
	"testing"
)

func TestThePasswordIsTakenOutOfAURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][3]string{ // without the password, the password, role and server
		"postgres://reader@db.example/shop": {"postgres://reader@db.example/shop", "", "reader@db.example"},
		"postgresql://reader:pass@db.example:5433/shop": {
			"postgresql://reader@db.example:5433/shop", "pass", "reader@db.example:5433",
		},
		"postgres://reader:p%40s%2Fs@db.example/shop?sslmode=require": {
			"postgres://reader@db.example/shop?sslmode=require", "p@s/s", "reader@db.example",
		},
		"postgres://reader:p@ss:w@db.example/shop": {"postgres://reader@db.example/shop", "p@ss:w", "reader@db.example"},
		"postgres://reader@a:1,b:2/shop?target_session_attrs=read-write": {
			"postgres://reader@a:1,b:2/shop?target_session_attrs=read-write", "", "reader@a:1,b:2",
		},
		"postgres://reader@db.example/shop?password=pass&sslmode=disable": {
			"postgres://reader@db.example/shop?sslmode=disable", "pass", "reader@db.example",
		},
		"postgres://reader@db.example/a%2Fb":        {"postgres://reader@db.example/a%2Fb", "", "reader@db.example"},
		"postgres://reader@[2001:db8::1]:5432/shop": {"postgres://reader@[2001:db8::1]:5432/shop", "", "reader@[2001:db8::1]:5432"},
	} {
		stripped, password, err := splitURL(text)
		if got := [3]string{stripped, password, server(stripped)}; err != nil || got != want {
			t.Errorf("splitURL(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

// A password with a slash would leave a part of itself in the database, which everybody sees.
func TestAURLWithAPasswordInItsDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"postgres://reader:p@ss/hush@db.example/shop", "postgres://reader:p@ss/hush/shop"} {
		if stripped, _, err := splitURL(text); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("splitURL(%q) = %q, %v", text, stripped, err)
		}
	}
}
