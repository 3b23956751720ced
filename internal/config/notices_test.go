package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
)

func TestMailSettingsAreChecked(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "message.txt"), []byte("{{.Title}}\n{{.Titel}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	const from, user = "--smtp-from=hooks@acme.example", "--smtp-url=smtp://ann@mail.example"
	secret := map[string]string{"POSTRIDER_SMTP_PASSWORD": "x"}
	for _, tt := range []struct {
		name string
		env  map[string]string
		args []string
		want string // empty: they are right
	}{
		{"a mail server", secret, []string{user, from}, ""},
		{"one without a login", nil, []string{"--smtp-url=smtp+plain://127.0.0.1", from}, ""},
		{"another scheme", nil, []string{"--smtp-url=https://mail.example", from}, "--smtp-url: must be smtp://"},
		{"a password in the URL", nil, []string{"--smtp-url=smtp://ann:pw@mail.example", from}, "--smtp-url: must not hold the password"},
		{"a password as a flag", nil, []string{user, from, "--smtp-password=pw"}, "--smtp-password: must not be a flag"},
		{"a user without a password", nil, []string{user, from}, "use POSTRIDER_SMTP_PASSWORD or --smtp-password-file"},
		{"a password without a user", secret, []string{"--smtp-url=smtp://mail.example", from}, "--smtp-url: must name a user"},
		{"a login without encryption", secret, []string{"--smtp-url=smtp+plain://ann@mail.example", from}, "--smtp-url: must not have a user"},
		{"no sender", secret, []string{user}, "smtp-from: must be an email address"},
		{"a sender without a mail server", nil, []string{from}, "--smtp-from: needs"},
		{
			"a file that is not there", nil,
			[]string{user, from, "--smtp-password-file=" + folder + "/none"},
			"--smtp-password-file: cannot be read",
		},
		{
			"authorities that are none", secret,
			[]string{user, from, "--smtp-ca-file=" + folder + "/message.txt"},
			"--smtp-ca-file: cannot be used",
		},
		{"a template with a mistake", nil, []string{"--notice-templates=" + folder}, "message.txt:2:2"},
		{"a folder that is not there", nil, []string{"--notice-templates=" + folder + "/none"}, "--notice-templates: cannot be used"},
		{"an interval that is too short", nil, []string{"--notice-interval=1s"}, "--notice-interval: must be 1m to 24h"},
		{
			"a login of the platform that is no URL", nil,
			[]string{"--portal-login-url=app.acme.example"},
			"--portal-login-url: must be an http or https URL",
		},
		{"no brand", nil, []string{"--notice-brand="}, "--notice-brand: must be 1 to 64"},
	} {
		c, sources := configtest.Parse(t, tt.env, tt.args...)
		err := sources.Check(c.Validate)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestNoSettingShowsTheMailPassword(t *testing.T) {
	t.Parallel()
	c, _ := configtest.Parse(t,
		map[string]string{"POSTRIDER_SMTP_PASSWORD": "correct horse", "POSTRIDER_SMTP_URL": "smtp://ann:horse@mail.example"})
	var log strings.Builder
	config.Logger(c, &log).InfoContext(t.Context(), "settings", "settings", c)
	for _, s := range c.Settings() {
		log.WriteString(s.Text())
	}
	if strings.Contains(log.String(), "horse") {
		t.Errorf("the settings show the password:\n%s", log.String())
	}
}
