package config

import (
	"time"
)

// RetentionConfig says for how long data is kept. Durations of days are written in hours: 720h are
// 30 days.
type RetentionConfig struct {
	KeepEvents      time.Duration `name:"keep-events" setting:"" group:"Retention" default:"720h" help:"How long events are kept with their data, 24h to 87600h. An event that a pending delivery or an unresolved dead letter needs stays. Without its event a delivery cannot be replayed."`
	KeepAttempts    time.Duration `name:"keep-attempts" setting:"" group:"Retention" default:"2160h" help:"How long deliveries that have ended are kept with their attempts, from the creation of the delivery, 24h to 87600h."`
	KeepBodies      time.Duration `name:"keep-bodies" setting:"" group:"Retention" default:"720h" help:"How long headers and bodies of requests and responses are kept, from the creation of the delivery, 24h to 87600h."`
	KeepDeadLetters time.Duration `name:"keep-dead-letters" setting:"" group:"Retention" default:"4320h" help:"How long a dead letter waits for a person, from the creation of its delivery, until the server discards it, 24h to 87600h."`
	KeepResolved    time.Duration `name:"keep-resolved" setting:"" group:"Retention" default:"2160h" help:"How long dead letters are kept after they were replayed or discarded, 24h to 87600h."`
	ExpungeList     string        `name:"expunge-list" setting:"" group:"Retention" placeholder:"FILE" help:"File to which every expunge is added, so that a store that is restored from a backup removes it again. Keep it outside of the backups and the data folder; several servers share one. Default: none."`
	KeepReplays     time.Duration `name:"keep-replays" setting:"" group:"Retention" default:"2160h" help:"How long replay jobs are kept after they have ended, 24h to 87600h."`
	KeepHealth      time.Duration `name:"keep-health" setting:"" group:"Retention" default:"9600h" help:"How long changes of the health of endpoints are kept, 24h to 87600h. The last change of each endpoint stays."`
	KeepAudit       time.Duration `name:"keep-audit" setting:"" group:"Retention" default:"9600h" help:"How long entries of the audit log are kept, 24h to 87600h."`
	KeepRestored    time.Duration `name:"keep-restored" setting:"" group:"Retention" default:"720h" help:"How long records that were restored from the archive are kept, 24h to 87600h."`
	KeepNotices     time.Duration `name:"keep-notices" setting:"" group:"Retention" default:"2160h" help:"How long notices are kept, 24h to 87600h."`
}

func (c RetentionConfig) check(f *faultList) {
	for setting, age := range map[string]time.Duration{
		"keep-events": c.KeepEvents, "keep-attempts": c.KeepAttempts, "keep-bodies": c.KeepBodies,
		"keep-dead-letters": c.KeepDeadLetters, "keep-resolved": c.KeepResolved, "keep-replays": c.KeepReplays,
		"keep-health": c.KeepHealth, "keep-audit": c.KeepAudit, "keep-restored": c.KeepRestored, "keep-notices": c.KeepNotices,
	} {
		f.refuse(age < 24*time.Hour || age > 87600*time.Hour, setting, "must be 24h to 87600h")
	}
}
