package config

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// logged are the packages that write log lines. The level of each one can be set separately. The
// server itself is "app", and the databases are "store".
var logged = []string{
	"api", "app", "archive", "dispatch", "expunge", "ingest", "inspect", "janitor", "messenger", "notify", "observe", "peers",
	"quota", "replay", "rollup", "routing", "secrets", "sources", "store", "telemetry", "traces", "web", "webhook",
}

// levels has the lowest level that is logged, for each named package and for all others.
type levels struct {
	others slog.Level
	of     map[string]slog.Level
}

// parseLevels parses a text such as info,dispatch=debug,webhook=warn.
func parseLevels(text string) (levels, error) {
	l := levels{others: slog.LevelInfo, of: map[string]slog.Level{}}
	set := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, level, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			name, level = "", name
		}
		parsed, ok := levelOf(level)
		switch {
		case !ok:
			return levels{},
				fmt.Errorf("must be debug, info, warn or error, and perhaps another one for a package, as in info,dispatch=debug; %q is none", level)
		case named && !slices.Contains(logged, name):
			return levels{}, fmt.Errorf("has no package %q%s (%s)", name, meant(closest(name, logged)), strings.Join(logged, ", "))
		case set[name]:
			return levels{}, fmt.Errorf("sets %s twice", cmp.Or(name, "the level of all other packages"))
		case named:
			l.of[name] = parsed
		default:
			l.others = parsed
		}
		set[name] = true
	}
	return l, nil
}

// levelOf returns the level with the name.
func levelOf(name string) (slog.Level, bool) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.ToLower(level.String()) == name {
			return level, true
		}
	}
	return 0, false
}

// at returns the lowest level that is logged for a package.
func (l levels) at(name string) slog.Level {
	if level, ok := l.of[name]; ok {
		return level
	}
	return l.others
}

// LogOf returns the logger of a package. If log was not made by [Logger], all packages have the
// same level.
func LogOf(log *slog.Logger, name string) *slog.Logger {
	if h, ok := log.Handler().(leveled); ok {
		h.least = h.set.at(name)
		return slog.New(h)
	}
	return log
}

// leveled is a handler that logs only records of at least the level least.
type leveled struct {
	slog.Handler

	set   levels
	least slog.Level
}

// Enabled implements [slog.Handler].
func (h leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= h.least }

// WithAttrs implements [slog.Handler].
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup implements [slog.Handler].
func (h leveled) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
