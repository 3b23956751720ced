package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Setting is one setting with its effective value. Secrets are masked, so a Setting may be printed
// and logged.
type Setting struct {
	Name  string // the name of the flag, without the leading hyphens
	Value any    // a string, bool, int or []string
}

// Text returns the value in the form of a flag. A list becomes a text with commas.
func (s Setting) Text() string {
	if list, ok := s.Value.([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(s.Value)
}

// settingsOf lists the fields of a configuration with the names of their flags, including the
// fields of embedded structs. It masks the settings that can hold a secret. A new secret setting
// must be added here.
func settingsOf(config reflect.Value) []Setting {
	var settings []Setting
	for i := range config.NumField() {
		field := config.Type().Field(i)
		if field.Anonymous {
			settings = append(settings, settingsOf(config.Field(i))...)
			continue
		}
		settings = append(settings, Setting{field.Tag.Get("name"), plain(config.Field(i).Interface())})
	}
	for i, s := range settings {
		switch {
		case s.Name == "database-url" || s.Name == "egress-proxy" || s.Name == "smtp-url":
			settings[i].Value = MaskURL(s.Value.(string)) //nolint:errcheck // the field is a string
		case slices.Contains([]string{"secrets-key", "oidc-client-secret", "otlp-headers", "archive-secret-key", "smtp-password"}, s.Name) &&
			s.Value != "":
			settings[i].Value = "xxxxx"
		}
	}
	return settings
}

// plain returns a setting's value as it is in a YAML file. Durations and networks become text.
func plain(value any) any {
	switch v := value.(type) {
	case time.Duration:
		return v.String()
	case []netip.Prefix:
		texts := make([]string, 0, len(v))
		for _, p := range v {
			texts = append(texts, p.String())
		}
		return texts
	case []string:
		return append([]string{}, v...)
	}
	return value
}
