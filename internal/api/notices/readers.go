package notices

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Readers lets the readers of emails confirm their address and unsubscribe. A reader has no
// session. The text of the link in the email is the permission, for one destination and one action.
//
// An error matches postrider.ErrNotFound if this installation did not sign the text, if the text
// has expired, or if its destination was deleted.
type Readers struct {
	*rest.Shared

	Store Store
	Vault Vault
}

// Vault verifies texts that this installation signed.
type Vault interface {
	// Unsign returns the payload of a text that this installation signed. For any other text it
	// returns an error.
	Unsign(text string) ([]byte, error)
}

// Find returns the link and its destination. It changes nothing.
func (r *Readers) Find(
	ctx context.Context, action postrider.LinkAction, text string,
) (postrider.Destination, postrider.DestinationLink, error) {
	gone := fmt.Errorf("follow link: %w", postrider.ErrNotFound)
	payload, err := r.Vault.Unsign(text)
	if err != nil {
		return postrider.Destination{}, postrider.DestinationLink{}, gone
	}
	link, ok := postrider.DecodeDestinationLink(payload)
	if !ok || link.Action != action || !link.ExpiresAt.IsZero() && !r.Clock.Wall().Before(link.ExpiresAt) {
		return postrider.Destination{}, link, gone
	}
	d, err := store.First(r.Store.Destinations(ctx, store.DestinationQuery{ID: link.Destination}))
	return d, link, err
}

// ReaderAction returns the name that the action of a reader has in the audit log.
func ReaderAction(action postrider.LinkAction) string { return string(action) + "-notice-destination" }

// Follow does the action of the link and writes an audit entry. A link that was used before changes
// nothing and has no entry.
func (r *Readers) Follow(ctx context.Context, action postrider.LinkAction, text string, from netip.Addr) error {
	d, link, err := r.Find(ctx, action, text)
	if err != nil {
		return err
	}
	entry := postrider.AuditEntry{
		Action: ReaderAction(action), Outcome: rest.OutcomeOK, Account: d.Account, Object: "notice_destination", ObjectID: d.ID.String(),
		Details: rest.ClientOf(from),
	}
	c := store.ChangeDestination{ID: d.ID, Confirm: action == postrider.LinkConfirm}
	if action == postrider.LinkUnsubscribe {
		c.Unsubscribe, entry.Details["kind"] = link.Kind, string(link.Kind)
	}
	after := d
	if c.Apply(&after, r.Clock.Wall()); reflect.DeepEqual(after, d) {
		return nil
	}
	if _, err := r.Store.ChangeDestination(ctx, c); err != nil {
		return err
	}
	return r.Audit.Record(ctx, entry)
}
