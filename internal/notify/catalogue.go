package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// described lists the kinds of notices that have operational events, with their description and the
// details of the example.
var described = []struct {
	kind    postrider.NoticeKind
	text    string
	details map[string]string
}{
	{
		postrider.NoticeFailing, "An endpoint fails, and will be disabled if it goes on.",
		map[string]string{"reason": "failing", "warnings": "1"},
	},
	{
		postrider.NoticeDisabling, "An endpoint fails, and will soon be disabled.",
		map[string]string{"reason": "failing", "warnings": "3", "disabled_at": "2026-11-25T09:00:00Z"},
	},
	{postrider.NoticeDisabled, "The server has disabled an endpoint.", map[string]string{"reason": "gone", "warnings": "0"}},
	{postrider.NoticeRecovered, "An endpoint that failed works again.", nil},
	{
		postrider.NoticeCircuitOpen, "An endpoint has accepted nothing for long, and its circuit is open.",
		map[string]string{"reason": "failures_in_row", "failing_since": "2026-11-23T08:00:00Z"},
	},
	{
		postrider.NoticeBacklogFull, "As many deliveries wait for an endpoint as its account may have, and new events are skipped for it.",
		map[string]string{"limit": "10000"},
	},
	{postrider.NoticeConditionFailed, "An endpoint is set aside, because its condition could not be evaluated.", nil},
	{
		postrider.NoticeDeadLetters, "Many deliveries of an endpoint became dead letters within 24 hours.",
		map[string]string{"count": "120", "limit": "100"},
	},
	{
		postrider.NoticeExpiring, "Dead letters of an endpoint will soon be discarded, because nobody has resolved them.",
		map[string]string{"discarded_at": "2026-12-07T09:00:00Z"},
	},
	{
		postrider.NoticeExpired, "Dead letters of an endpoint are discarded, because nobody has resolved them.",
		map[string]string{"created_before": "2026-05-27T09:00:00Z"},
	},
	{postrider.NoticeReplay, "A replay has finished.", map[string]string{"status": "done", "action": "replay"}},
	{
		postrider.NoticeQuota, "Requests of the account were refused, because it has used up a quota.",
		map[string]string{"quota": "bytes_per_day", "limit": "1000000000", "ends_at": "2026-11-24T00:00:00Z"},
	},
}

// exampleTime is the creation time of the notices in the examples.
var exampleTime = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// catalogue adds the types of operational events to the catalogue, so that people find them when
// they subscribe. A type that exists keeps the text that people have written.
func (n *Notify) catalogue(ctx context.Context) error {
	for _, d := range described {
		name := d.kind.EventType()
		found, err := n.store.EventTypes(ctx, store.EventTypeQuery{Name: name})
		if err != nil {
			return fmt.Errorf("look up event type %s: %w", name, err)
		}
		if len(found.Items) > 0 {
			continue
		}
		example, err := example(d.kind, d.details)
		if err != nil {
			return err
		}
		t := postrider.EventType{Name: name, Description: d.text, Example: example, CreatedAt: n.store.Clock().Wall()}
		if err := n.store.PutEventType(ctx, t); err != nil && !errors.Is(err, postrider.ErrConflict) { // another node adds it, too
			return fmt.Errorf("add event type %s to the catalogue: %w", name, err)
		}
	}
	return nil
}

// example returns the data of an example event of the kind.
func example(kind postrider.NoticeKind, details map[string]string) ([]byte, error) {
	notice := postrider.Notice{
		ID:      postrider.MakeID[postrider.NoticeID](exampleTime, [10]byte{}),
		Account: postrider.MakeID[postrider.AccountID](exampleTime, [10]byte{}),
		Kind:    kind, Object: postrider.MakeID[postrider.EndpointID](exampleTime, [10]byte{}).String(),
		Details: details, CreatedAt: exampleTime,
	}
	if kind == postrider.NoticeReplay {
		notice.Object = postrider.MakeID[postrider.ReplayID](exampleTime, [10]byte{}).String()
	}
	if kind == postrider.NoticeQuota {
		notice.Object = notice.Account.String()
	}
	data, err := json.Marshal(apitypes.NoticeOf(notice))
	if err != nil {
		return nil, fmt.Errorf("encode the example of %s: %w", kind, err)
	}
	return data, nil
}
