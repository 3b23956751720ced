package app

import (
	"log/slog"

	"github.com/postrider/postrider"
)

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
