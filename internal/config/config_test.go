package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
)

// writeFile writes a file of settings and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// value returns a setting as a flag would have it.
func value(t *testing.T, c config.Config, name string) string {
	t.Helper()
	for _, s := range c.Settings() {
		if s.Name == name {
			return s.Text()
		}
	}
	t.Fatalf("there is no setting %s", name)
	return ""
}

func TestAFlagGoesBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "listen: :1\nops:\n  listen: :2\nconcurrency: 3\negress:\n  allow: [10.0.0.0/8, 'fd00::/8']\n")
	c, sources := configtest.Parse(t, map[string]string{
		"POSTRIDER_CONFIG":     file,
		"POSTRIDER_OPS_LISTEN": ":22",
		"POSTRIDER_LISTEN":     ":11",
		"POSTRIDER_DATA_DIR":   "", // as good as none
	}, "--listen", ":111")

	if err := sources.Check(c.Validate); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
	for _, want := range [][3]string{
		{"listen", ":111", "--listen"},
		{"ops-listen", ":22", "POSTRIDER_OPS_LISTEN"},
		{"concurrency", "3", "concurrency in " + file + ":4"},
		{"egress-allow", "10.0.0.0/8,fd00::/8", "egress.allow in " + file + ":6"},
		{"data-dir", "./postrider-data", "default"},
	} {
		got := [3]string{want[0], value(t, c, want[0]), sources.Origin(want[0])}
		if got != want {
			t.Errorf("setting = %v, want %v", got, want)
		}
	}
}

func TestEveryMistakeIsNamedAsItWasTyped(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "log:\n  level: loud\nconcurency: 3\nlog-level: info\ndrain-timeout: [1s, {}]\n")
	c, sources := configtest.Parse(t, map[string]string{
		"POSTRIDER_LISTEN":       "nonsense",
		"POSTRIDER_CONCURRENCY":  "many",
		"POSTRIDER_EGRESS_ALLOW": "10.0.0.0",
		"POSTRIDER_LISTNE":       ":1",
		"POSTRIDER_FROBNICATE":   "1",
		"POSTRIDER_CONFGI":       "", // as good as none
		"POSTRIDER_API_KEY":      "pr_hush",
		"POSTRIDER_PORT":         "tcp://10.0.0.1:80", // of Kubernetes
		"POSTRIDER_SERVICE_HOST": "10.0.0.1",
	}, "--config", file, "--max-data=7", "--egress-ports=443,x")

	got := strings.ReplaceAll(sources.Check(c.Validate).Error(), file, "FILE")
	want := strings.Join([]string{
		"POSTRIDER_FROBNICATE: is no setting",
		"POSTRIDER_LISTNE: is no setting; is POSTRIDER_LISTEN meant?",
		"concurency in FILE:3: is no setting; is concurrency meant?",
		"log-level in FILE:4: is set twice",
		"drain-timeout in FILE:5: must be a list of plain values",
		`POSTRIDER_CONCURRENCY: expected a valid 64 bit int but got "many"`,
		`POSTRIDER_EGRESS_ALLOW: netip.ParsePrefix("10.0.0.0"): no '/'`,
		"POSTRIDER_LISTEN: must be host:port, with a port from 0 to 65535",
		"--max-data: must be 1024 to 1048576 bytes",
		"--egress-ports: must be any, or ports from 1 to 65535 with commas between",
		`log.level in FILE:2: must be debug, info, warn or error, and perhaps another one for a package, as in info,dispatch=debug; "loud" is none`,
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"a password in a flag", []string{"--database-url", "postgres://u:hush@h/db"}, "--database-url: must not hold a password"},
		{"a password in a flag's query", []string{"--database-url", "postgres://h/db?password=hush"}, "--database-url: must not hold a password"},
		{"a proxy's password in a flag", []string{"--egress-proxy", "http://u:hush@h:1"}, "--egress-proxy: must not hold a password"},
		{
			"a level of another package",
			[]string{"--log-level", "info,dispach=debug"},
			`--log-level: has no package "dispach"; is dispatch meant? (api, app,`,
		},
		{
			"no level of a package",
			[]string{"--log-level", "dispatch="},
			`--log-level: must be debug, info, warn or error, and perhaps another one for a package, as in info,dispatch=debug; "" is none`,
		},
		{"two levels", []string{"--log-level", "info,debug"}, "--log-level: sets the level of all other packages twice"},
		{"two levels of a package", []string{"--log-level", "api=info,api=warn"}, "--log-level: sets api twice"},
		{"a collector without a scheme", []string{"--otlp-url", "collector:4318"}, "--otlp-url: must be a URL like http://collector:4318"},
		{
			"a collector with a password",
			[]string{"--otlp-url", "http://u:hush@collector"},
			"--otlp-url: must be a URL like http://collector:4318",
		},
		{"a collector's token in a flag", []string{"--otlp-headers", "authorization=hush"}, "--otlp-headers: must not be a flag"},
		{"more than all traces", []string{"--trace-sample", "1.01"}, "--trace-sample: must be 0 to 1"},
		{"no share of the traces", []string{"--trace-sample", "NaN"}, "--trace-sample: must be 0 to 1"},
		{"another proxy", []string{"--egress-proxy", "ftp://u@h:21"}, "--egress-proxy: must be http, https or socks5://host:port"},
		{"another database", []string{"--database-url", "mysql://h/db"}, "--database-url: must be postgres://"},
		{
			"a database file that is not there",
			[]string{"--database-url-file", "/nowhere/dsn"},
			"--database-url-file: cannot be read: no such file or directory",
		},
		{"a file that is not there", []string{"--config", "/nowhere/postrider.yaml"}, "--config: no such file or directory"},
		{"a file that is a list", []string{"--config", writeFile(t, "- 1\n")}, "--config: must be a mapping"},
		{"a file that is no YAML", []string{"--config", writeFile(t, "a: [\n")}, "--config: is no YAML"},
		{"one address twice", []string{"--listen", ":1", "--ops-listen", ":1"}, "--ops-listen: must not be the address of the API"},
		{"no concurrency", []string{"--concurrency=0"}, "--concurrency: must be 1 to 100000"},
		{"any and a port", []string{"--egress-ports=any,80"}, "--egress-ports: must be any, or"},
		{"a log of another form", []string{"--log-format=xml"}, "--log-format: must be json or text"},
		{"a drain of no time", []string{"--drain-timeout=0s"}, "--drain-timeout: must be 1s to 10m"},
		{"events for a second", []string{"--keep-events=1s"}, "--keep-events: must be 24h to 87600h"},
		{"audit entries for a century", []string{"--keep-audit=876000h"}, "--keep-audit: must be 24h to 87600h"},
		{"keys for a second", []string{"--idempotency-ttl=1s"}, "--idempotency-ttl: must be 1m to 2160h"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, sources := configtest.Parse(t, nil, tt.args...)
			err := sources.Check(c.Validate)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check = %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("Check = %v, which names the password", err)
			}
		})
	}
}

func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://user:hush@host/db",
		"postgres://host/db?password=hush&sslmode=require",
		"host=h password=hush",
		"postgres://user:hush@host:bad port/db",
	} {
		c, sources := configtest.Parse(t, map[string]string{"POSTRIDER_DATABASE_URL": dsn})
		printed, err := config.Print(c.Settings())
		if err != nil {
			t.Fatal(err)
		}
		shown := printed + c.LogValue().String()
		if err := sources.Check(c.Validate); err != nil {
			shown += err.Error()
		}
		if strings.Contains(shown, "hush") {
			t.Errorf("of %s is shown: %s", dsn, shown)
		}
	}
}

func TestWhatIsPrintedIsReadBack(t *testing.T) {
	t.Parallel()
	c, _ := configtest.Parse(t, nil, "--listen=:1", "--egress-allow=10.0.0.0/8", "--dev", "--drain-timeout=7s")
	text, err := config.Print(c.Settings())
	if err != nil {
		t.Fatal(err)
	}
	again, sources := configtest.Parse(t, nil, "--config", writeFile(t, text))
	if err := sources.Check(again.Validate); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
	again.ConfigFile = ""
	if diff := cmp.Diff(c.Settings(), again.Settings()); diff != "" {
		t.Errorf("settings read back (-want +got):\n%s", diff)
	}
}
