package notices

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

const (
	// maxDestinations is the largest number of destinations of an account, and of the operator.
	maxDestinations = 20
	// maxEmail is the length of the longest email address (RFC 5321). maxWebhook is the length of the
	// longest webhook URL, in bytes.
	maxEmail, maxWebhook = 254, 1024
)

// registerDestinations registers the routes of the destinations of notices.
func (s *Routes) registerDestinations(rt *rest.Router) {
	read, write := postrider.ScopeWebhooksRead, postrider.ScopeEndpointsWrite
	const limits = "An account may have 20 destinations."
	rest.HandleBody(rt, rest.Route{
		Name: "create-notice-destination", Path: "POST /notice-destinations",
		Summary:     "Add a destination of notices",
		Description: "An email address gets a message with a link, and nothing else until its reader follows the link. " + limits,
		Codes:       []string{"destination_exists", "too_many_destinations", "public_url_missing", "mail_missing", "too_often"},
		Scope:       write, Status: 201,
	}, s.createDestination)
	rest.Handle(rt, rest.Route{
		Name: "list-notice-destinations", Path: "GET /notice-destinations",
		Summary: "List destinations of notices, newest first",
		Scope:   read,
	}, s.listDestinations)
	rest.Handle(rt, rest.Route{
		Name: "get-notice-destination", Path: "GET /notice-destinations/{destination}",
		Summary: "Get a destination of notices",
		Scope:   read,
	}, s.getDestination)
	rest.HandleBody(rt, rest.Route{
		Name: "update-notice-destination", Path: "PATCH /notice-destinations/{destination}",
		Summary:     "Change a destination of notices",
		Description: "A field that is left out keeps its value.",
		Scope:       write,
	}, s.changeDestination)
	rest.Handle(rt, rest.Route{
		Name: "delete-notice-destination", Path: "DELETE /notice-destinations/{destination}",
		Summary: "Delete a destination of notices",
		Scope:   write, Status: 204,
	}, s.deleteDestination)
	rest.Handle(rt, rest.Route{
		Name: "ask-notice-destination", Path: "POST /notice-destinations/{destination}/confirmation",
		Summary:     "Send the message that asks the reader of an email address to confirm it",
		Description: "An account can have ten such messages sent at once, then one every six minutes, and three to one address, then one an hour.",
		Codes:       []string{"destination_no_email", "public_url_missing", "mail_missing", "too_often"},
		Scope:       write,
	}, s.confirmDestination)
	rest.Handle(rt, rest.Route{
		Name: "test-notice-destination", Path: "POST /notice-destinations/{destination}/test",
		Summary:     "Send a test message to a destination of notices",
		Description: "The message is sent soon after; last_sent_at and last_error say what became of it.",
		Codes:       []string{"destination_unconfirmed", "destination_unsubscribed", "too_often"},
		Scope:       write,
	}, s.testDestination)
}

// destinationPath names a destination.
type destinationPath struct {
	Destination string `path:"destination"`
}

// viewDestination returns a function that converts a destination to the form of a response. A
// caller of one account does not see the details of mail server errors.
func viewDestination(ctx context.Context) func(postrider.Destination) apitypes.Destination {
	bound := !rest.InfoOf(ctx).Caller.Account.IsZero()
	return func(d postrider.Destination) apitypes.Destination {
		// The details of a mail server error may have an address of the platform's network, which
		// an account must not see.
		if name, _, _ := strings.Cut(d.LastError, ":"); bound && name == string(postrider.FailureMailServer) {
			d.LastError = name
		}
		return fullDestination(d)
	}
}

// fullDestination returns a destination in the form of a response for an operator, with all details
// of its last error.
func fullDestination(d postrider.Destination) apitypes.Destination {
	view := apitypes.Destination{
		ID: d.ID, Account: render.OrNull(d.Account), Channel: d.Channel, Address: d.Address, Language: d.Language,
		Unsubscribed: append([]postrider.NoticeKind{}, d.Unsubscribed...), State: d.State(), Asked: render.OrNull(d.Ask),
		CreatedAt: render.Instant(d.CreatedAt), ConfirmedAt: render.TimeOrNull(d.ConfirmedAt), LastSentAt: render.TimeOrNull(d.LastSentAt),
		Failures: d.Failures, LastError: render.OrNull(d.LastError),
	}
	if d.Channel == postrider.ChannelSlack {
		view.Address = maskWebhook(d.Address)
	}
	if d.Kinds != nil {
		view.Kinds = &d.Kinds
	}
	return view
}

// maskWebhook returns the URL of a webhook with only its scheme, its host and its last four
// characters. The rest of the URL is a secret.
func maskWebhook(raw string) string {
	at, err := url.Parse(raw)
	if err != nil || len(raw) < 4 {
		return postrider.Masked
	}
	return at.Scheme + "://" + at.Host + "/…" + strings.ToValidUTF8(raw[len(raw)-4:], "")
}

// createDestination adds a destination. If the destination belongs to no account, it is the
// operator's and gets the notices of the installation, so the caller needs the scope admin.
func (s *Routes) createDestination(
	ctx context.Context, _ *rest.None, body apitypes.DestinationCreate,
) (*rest.Reply[apitypes.Destination], error) {
	account, err := s.Names.ResolveLiveAccount(ctx, "account", body.Account)
	d := postrider.Destination{
		ID: store.NewID[postrider.DestinationID](s.IDs), Account: account, Channel: body.Channel, Language: body.Language,
	}
	if d.Language == "" {
		d.Language = "en"
	}
	if kinds, given := body.Kinds.Get(); given {
		d.Kinds = append([]postrider.NoticeKind{}, kinds...)
	}
	var addressErr error
	d.Address, addressErr = s.checkAddress(d, body.Address)
	if err := errors.Join(err, addressErr, checkLanguage(d.Language), checkKinds(d.Kinds)); err != nil {
		return nil, err
	}
	if err := s.mayManage(ctx, d); err != nil {
		return nil, err
	}
	if d.Channel == postrider.ChannelSlack { // knowing the URL is the permission to post to it
		d.ConfirmedAt = s.Clock.Wall()
	} else if d.Ask, err = postrider.AskConfirmation, s.allowConfirmation(d); err != nil {
		return nil, err
	}
	err = s.Store.PutDestination(ctx, d, maxDestinations)
	switch {
	case errors.Is(err, store.ErrTooMany):
		return nil, rest.Conflict("too_many_destinations", fmt.Sprintf("there are %d destinations already", maxDestinations))
	case errors.Is(err, postrider.ErrConflict):
		return nil, rest.Conflict("destination_exists", "there is a destination with this address already")
	}
	return rest.RespondWith(viewDestination(ctx))(s.findDestination(ctx, d.ID.String()))
}

// mayManage returns a 403 if the destination is the operator's and the caller lacks the scope
// admin.
func (s *Routes) mayManage(ctx context.Context, d postrider.Destination) error {
	if d.Account.IsZero() && !rest.InfoOf(ctx).Caller.Allows(postrider.ScopeAdmin) {
		return &rest.Error{
			Class:  rest.ErrForbidden,
			Detail: "destinations of the operator need a key with the scope admin; name an account for one of its own",
		}
	}
	return nil
}

// allowConfirmation returns an error if no confirmation message can be sent now. Otherwise it
// counts the message for the limits.
func (s *Routes) allowConfirmation(d postrider.Destination) error {
	if !s.Mail {
		return errNoMail
	}
	if s.PublicURL == "" {
		return rest.ErrNoPublicURL
	}
	if err := s.confirmations.Allow(d.Account); err != nil {
		return err
	}
	return s.addresses.Allow(d.Address)
}

// errNoMail is the response to a request that needs an email, from a server that has no mail
// server.
var errNoMail = &rest.Error{
	Class: postrider.ErrInvalid, Code: "mail_missing",
	Detail: "emails need a mail server, which is not set: start the server with --smtp-url (POSTRIDER_SMTP_URL)",
}

// checkAddress returns the address in the form in which it is stored. The webhook URL of an account
// must follow the rules for URLs of endpoints. The operator's webhooks may be at any host.
func (s *Routes) checkAddress(d postrider.Destination, address string) (string, error) {
	wrong := func(reason string) error { return rest.Invalid("address", postrider.FaultMalformed, reason) }
	switch {
	case address == "":
		return "", rest.Invalid("address", postrider.FaultRequired, "is required")
	case d.Channel == postrider.ChannelEmail:
		parsed, err := mail.ParseAddress(address)
		local, domain, _ := strings.Cut(address, "@")
		if err != nil || parsed.Address != address || parsed.Name != "" || len(address) > maxEmail || !isASCII(address) ||
			!strings.Contains(domain, ".") {
			return "", wrong("must be an email address like ann@acme.example")
		}
		return local + "@" + strings.ToLower(domain), nil
	case d.Channel != postrider.ChannelSlack:
		return "", rest.Invalid("channel", postrider.FaultNotAChoice, "must be email or slack")
	case len(address) > maxWebhook:
		return "", rest.TooLong("address", maxWebhook, "is too long")
	case d.Account.IsZero():
		at, err := url.Parse(address)
		if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.User != nil {
			return "", wrong("must be a URL like https://hooks.slack.com/services/…")
		}
		return address, nil
	}
	canonical, err := s.Guard.CheckURL(address)
	if fault, ok := errors.AsType[*postrider.InvalidError](err); ok {
		return "", rest.Invalid("address", fault.Code, fault.Reason)
	}
	return canonical, err
}

// isASCII reports whether the text has only visible ASCII characters. Other email addresses need
// SMTPUTF8 on every mail server on their way.
func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// checkLanguage refuses a language in which there are no messages.
func checkLanguage(language string) error {
	if !slices.Contains(postrider.MessageLanguages, language) {
		return rest.Invalid("language", postrider.FaultNotAChoice, "must be "+strings.Join(postrider.MessageLanguages, " or "))
	}
	return nil
}

// checkKinds refuses kinds that do not exist, and kinds that are repeated.
func checkKinds(kinds []postrider.NoticeKind) error {
	var faults []error
	for i, kind := range kinds {
		field := fmt.Sprintf("kinds[%d]", i)
		switch {
		case !slices.Contains(postrider.NoticeKinds, kind):
			faults = append(faults, rest.Invalid(field, postrider.FaultNotAChoice, "must be a kind of notice"))
		case slices.Contains(kinds[:i], kind):
			faults = append(faults, rest.Invalid(field, postrider.FaultRepeated, "must be there once"))
		}
	}
	return errors.Join(faults...)
}

// listDestinations lists the destinations that all given filters select.
func (s *Routes) listDestinations(ctx context.Context, in *struct {
	Account  string `query:"account" doc:"Id or uid of the account."`
	Operator bool   `query:"operator" doc:"Whether to list only the operator's; default false."`
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Destination]], error) {
	account, err := s.Names.ResolveAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewDestination(ctx))(s.Store.Destinations(ctx,
		store.DestinationQuery{Account: account, Operator: in.Operator, Paging: in.Paging.Of()}))
}

// findDestination returns the destination if the caller may see it.
func (s *Routes) findDestination(ctx context.Context, text string) (postrider.Destination, error) {
	id, err := rest.ParseID[postrider.DestinationID](text)
	if err != nil {
		return postrider.Destination{}, err
	}
	d, err := store.First(s.Store.Destinations(ctx, store.DestinationQuery{ID: id, Account: rest.InfoOf(ctx).Caller.Account}))
	rest.InfoOf(ctx).Account = d.Account
	return d, err
}

func (s *Routes) getDestination(ctx context.Context, in *destinationPath) (*rest.Reply[apitypes.Destination], error) {
	return rest.RespondWith(viewDestination(ctx))(s.findDestination(ctx, in.Destination))
}

// ownDestination returns the destination if the caller may see it and change it.
func (s *Routes) ownDestination(ctx context.Context, text string) (postrider.Destination, error) {
	d, err := s.findDestination(ctx, text)
	if err == nil {
		err = s.mayManage(ctx, d)
	}
	return d, err
}

// changeDestination changes the language and the kinds of a destination.
func (s *Routes) changeDestination(ctx context.Context, in *destinationPath,
	body apitypes.DestinationUpdate,
) (*rest.Reply[apitypes.Destination], error) {
	d, err := s.ownDestination(ctx, in.Destination)
	if err != nil {
		return nil, err
	}
	c := store.ChangeDestination{ID: d.ID}
	if body.Language != nil {
		c.Language, err = *body.Language, checkLanguage(*body.Language)
	}
	kinds := d.Kinds
	rest.Set(&kinds, body.Kinds, nil)
	if c.Kinds = &kinds; errors.Join(err, checkKinds(kinds)) != nil {
		return nil, errors.Join(err, checkKinds(kinds))
	}
	changed, err := s.Store.ChangeDestination(ctx, c)
	rest.InfoOf(ctx).Changed(fullDestination(d), fullDestination(changed))
	return rest.RespondWith(viewDestination(ctx))(changed, err)
}

func (s *Routes) deleteDestination(ctx context.Context, in *destinationPath) (*rest.None, error) {
	d, err := s.ownDestination(ctx, in.Destination)
	if err != nil {
		return nil, err
	}
	return nil, s.Store.DeleteDestination(ctx, d.ID)
}

// confirmDestination asks the messenger to send the confirmation message with the link.
func (s *Routes) confirmDestination(ctx context.Context, in *destinationPath) (*rest.Reply[apitypes.Destination], error) {
	d, err := s.ownDestination(ctx, in.Destination)
	if err == nil && d.Channel != postrider.ChannelEmail {
		err = rest.Conflict("destination_no_email", "only an email address needs to be confirmed")
	}
	if err == nil {
		err = s.allowConfirmation(d)
	}
	if err != nil {
		return nil, err
	}
	return rest.RespondWith(viewDestination(ctx))(s.Store.ChangeDestination(ctx, store.ChangeDestination{
		ID: d.ID, Ask: postrider.AskConfirmation,
	}))
}

// testDestination asks the messenger to send a test message.
func (s *Routes) testDestination(ctx context.Context, in *destinationPath) (*rest.Reply[apitypes.Destination], error) {
	d, err := s.ownDestination(ctx, in.Destination)
	if err == nil && d.ConfirmedAt.IsZero() {
		err = rest.Conflict("destination_unconfirmed", "its reader has not confirmed the address")
	}
	if err == nil && slices.Contains(d.Unsubscribed, postrider.AllKinds) {
		err = rest.Conflict("destination_unsubscribed", "its reader wants no messages; ask for a confirmation again")
	}
	if err == nil {
		err = s.tests.Allow(d.ID)
	}
	if err != nil {
		return nil, err
	}
	return rest.RespondWith(viewDestination(ctx))(s.Store.ChangeDestination(ctx, store.ChangeDestination{ID: d.ID, Ask: postrider.AskTest}))
}

// The intervals at which people may ask for a message. They are limited because the messages go to
// addresses of third parties.
const (
	confirmEvery = 6 * time.Minute // for one account, after ten at once
	addressEvery = time.Hour       // for one address, after three at once
	testEvery    = time.Minute     // for one destination, after three at once
)
