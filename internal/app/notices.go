package app

import (
	"errors"
	"log/slog"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/janitor"
)

// NoticeConfig says when people get a notice of what the health of an endpoint does not say.
type NoticeConfig struct {
	NoticeDeadLetters int           `name:"notice-dead-letters" setting:"" group:"Notices" default:"100" help:"Dead letters of an endpoint within 24 hours from which its owner gets a notice, 1 to 1000000."`
	NoticeCircuitOpen time.Duration `name:"notice-circuit-open" setting:"" group:"Notices" default:"1h" help:"How long an endpoint with an open circuit has accepted nothing before its owner gets a notice, 1m to 2160h."`
}

// validate returns the faults of the settings.
func (c NoticeConfig) validate(named func(setting string) string) error {
	var faults []error
	if c.NoticeDeadLetters < 1 || c.NoticeDeadLetters > 1_000_000 {
		faults = append(faults, &Fault{Key: named("notice-dead-letters"), Reason: "must be 1 to 1000000"})
	}
	if c.NoticeCircuitOpen < time.Minute || c.NoticeCircuitOpen > 90*24*time.Hour {
		faults = append(faults, &Fault{Key: named("notice-circuit-open"), Reason: "must be 1m to 2160h"})
	}
	return errors.Join(faults...)
}

// limits returns what the janitor writes notices by.
func (c NoticeConfig) limits() janitor.NoticeLimits {
	return janitor.NoticeLimits{CircuitOpen: c.NoticeCircuitOpen, DeadLetters: c.NoticeDeadLetters}
}

// logNotice returns the hook that logs each notice.
func logNotice(log *slog.Logger) func(postrider.Notice) {
	return func(n postrider.Notice) {
		account := ""
		if !n.Account.IsZero() {
			account = n.Account.String()
		}
		log.Info("notice", "notice", n.ID.String(), "kind", string(n.Kind), "account", account, "object", n.Object, "details", n.Details)
	}
}
