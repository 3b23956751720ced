package app

import (
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/notify"
	"github.com/postrider/postrider/internal/quota"
	"github.com/postrider/postrider/internal/replay"
	"github.com/postrider/postrider/internal/sources"
)

// publishing has the parts that accept events and make deliveries.
type publishing struct {
	quotas   *quota.Meter // called before ingest
	backlogs *quota.Backlogs
	ingest   *ingest.Ingest
	replays  *replay.Runner
	notify   *notify.Notify
	sources  *sources.Sources
}

// newPublishing makes the parts that accept events and make deliveries.
func newPublishing(b base, k *kept, s *sending) *publishing {
	p := &publishing{}
	room := b.vitals.disk.Room
	p.replays = replay.New(k.store, s.table, s.dispatcher, replay.Options{
		IDs: k.ids, Room: room, Hooks: b.hooks(), Log: b.logOf("replay"),
	})
	p.ingest = ingest.New(k.store, s.table, s.dispatcher, ingest.Options{
		IDs: k.ids, Clock: k.store.Clock(), Room: room, Terms: k.secrets.EventTerms, Hooks: b.hooks(), Log: b.logOf("ingest"),
	})
	p.quotas = quota.New(p.ingest, k.store, quota.Options{Defaults: b.config.Quotas(), Hooks: b.hooks(), Log: b.logOf("quota")})
	p.backlogs = quota.NewBacklogs(k.store, quota.BacklogOptions{
		Default: b.config.QuotaBacklog, Leads: func() bool { return s.dispatcher.Owns([16]byte{}) }, Notify: s.table.Notify, IDs: k.ids,
		Hooks: b.hooks(), Log: b.logOf("quota"),
	})
	p.notify = notify.New(k.store, p.ingest, s.table, notify.Options{Hooks: b.hooks(), Log: b.logOf("notify")})
	p.sources = newSources(b, k, s, p.quotas)
	return p
}
