package app

import (
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/sources"
)

// newSources makes the readers of the outboxes of producers.
func newSources(b base, k *kept, s *sending, publisher sources.Publisher) *sources.Sources {
	return sources.New(sources.Deps{
		Store: k.store, Publisher: publisher, Open: k.outboxes.Open, Owns: s.dispatcher.Owns, Held: s.table.Held,
	}, sources.Options{Node: config.Hostname(), MaxData: b.config.MaxData, Hooks: b.hooks(), Log: b.logOf("sources")})
}
