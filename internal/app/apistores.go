package app

import (
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
)

// storesOf returns the store as the interfaces that the features of the API need.
func storesOf(s store.Store) api.Stores {
	return api.Stores{
		Names: s, Callers: s, AuditLog: s, Accounts: s, Archives: s, Audit: s, Circuits: s, DeadLetters: s, Deliveries: s,
		Endpoints: s, Events: s, EventTypes: s, Expunges: s, Hold: s, Inspections: s, Keys: s, Notices: s, Operations: s, Portal: s,
		Replays: s, Search: s, Secrets: s, Sessions: s, Sources: s, Stats: s, Values: s, WhatIfs: s,
	}
}
