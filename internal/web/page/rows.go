package page

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// KeyRow is an API key with its state.
type KeyRow struct {
	apitypes.Key

	State string // active, expired or revoked
}

// KeyOf returns an API key with its state.
func KeyOf(v *Visit, k apitypes.Key) KeyRow {
	switch {
	case k.RevokedAt != nil:
		return KeyRow{k, "revoked"}
	case k.ExpiresAt != nil && !v.Now.Before(k.ExpiresAt.Time):
		return KeyRow{k, "expired"}
	}
	return KeyRow{k, "active"}
}

// KeysOf returns API keys with their states.
func KeysOf(v *Visit, f client.KeyFilter) (apitypes.Page[KeyRow], error) {
	keys, err := v.API.Keys(v.Context, f)
	return RowsOf(keys, func(k apitypes.Key) KeyRow { return KeyOf(v, k) }), err
}

// DeadLetterGroup is a group of dead letters.
type DeadLetterGroup struct {
	apitypes.DeadLetterGroup

	First bool // the group before it belongs to another endpoint
}

// GroupsOf returns groups as rows, and reads the names of their endpoints. Groups of one endpoint
// must follow each other.
func GroupsOf(v *Visit, groups apitypes.Page[apitypes.DeadLetterGroup]) (apitypes.Page[DeadLetterGroup], error) {
	rows := apitypes.Page[DeadLetterGroup]{NextCursor: groups.NextCursor}
	ids := make([]postrider.EndpointID, 0, len(groups.Data))
	for i, g := range groups.Data {
		rows.Data = append(rows.Data, DeadLetterGroup{g, i == 0 || ids[i-1] != g.Endpoint})
		ids = append(ids, g.Endpoint)
	}
	return rows, v.NameEndpoints(v.Context, ids)
}

// ResumeCommand is the CLI command that shows what a held store may send twice, and that resumes
// the store with --yes.
const ResumeCommand = "resume --after-restore"

// Sections has the section of the pages for each kind of object. A search hit calls an API key
// api_key, and the audit log calls it key.
var Sections = map[string]string{
	"account": "accounts", "endpoint": "endpoints", "event": "events", "delivery": "deliveries", "event_type": "event-types",
	"api_key": "api-keys", "key": "api-keys", "replay": "replays", "notice_destination": "notice-destinations",
}
