package web

import (
	"context"
	"net/http"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// destinationRoutes lists the pages and forms of where notices are sent.
func destinationRoutes() []route {
	const one = " /notice-destinations/{destination}"
	return []route{
		{"GET /notice-destinations", everyone, listDestinations},
		{"GET /notice-destinations/new", everyone, newDestination},
		{"POST /notice-destinations", everyone, createDestination},
		{"GET" + one, everyone, showDestination},
		{"POST" + one, everyone, changeDestination},
		{"POST" + one + "/test", everyone, askDestination("test", (*client.Client).TestDestination)},
		{"POST" + one + "/confirmation", everyone, askDestination("confirmation", (*client.Client).AskToConfirm)},
		{"POST" + one + "/delete", everyone, deleteDestination},
	}
}

// destinationRow is a destination in the words of the pages.
type destinationRow struct {
	apitypes.Destination

	Badges []string // its state, and whether it fails
	Why    string   // why the last message was not sent; empty: it was, or there was none
	Chosen []string // the kinds of notices that it gets; nil: all
	Ended  []string // the kinds that its reader no longer wants
	May    bool     // the person may change it
}

// destinationRow puts a destination into words.
func (v *visit) destinationRow(d apitypes.Destination) destinationRow {
	row := destinationRow{Destination: d, Badges: []string{string(d.State)}, Ended: v.kindWords(d.Unsubscribed), May: v.can(postrider.ScopeEndpointsWrite)}
	if d.Account == nil {
		row.May = v.can(postrider.ScopeAdmin)
	}
	if d.Kinds != nil {
		row.Chosen = v.kindWords(*d.Kinds)
	}
	if d.LastError == nil {
		return row
	}
	row.Why = v.cause(*d.LastError)
	switch d.State {
	case postrider.DestinationActive:
		row.Badges = []string{"failing"}
	case postrider.DestinationWaiting:
		row.Badges = append(row.Badges, "failing")
	case postrider.DestinationUnsubscribed, postrider.DestinationRefused: // it gets no more messages
	}
	return row
}

// MayTest reports whether a test message can be asked for.
func (d destinationRow) MayTest() bool {
	return d.May && d.ConfirmedAt != nil && d.State != postrider.DestinationUnsubscribed
}

// MayAsk reports whether it is of use to ask the reader for a confirmation again.
func (d destinationRow) MayAsk() bool {
	return d.May && d.Channel == postrider.ChannelEmail && (d.State != postrider.DestinationActive || len(d.Unsubscribed) > 0)
}

// kindWords returns what people call kinds of notices. It is never nil.
func (v *visit) kindWords(kinds []postrider.NoticeKind) []string {
	said := []string{}
	for _, kind := range kinds {
		if kind == postrider.AllKinds {
			said = append(said, v.t("destination.all_kinds"))
		} else {
			said = append(said, v.textOr(string(kind), "notice.kind."+string(kind)))
		}
	}
	return said
}

// listDestinations shows where notices are sent: for operators all destinations, else those of
// the account.
func listDestinations(v *visit) error {
	var l listed[destinationRow]
	f := client.DestinationFilter{Paging: v.paging()}
	if v.who == operators {
		l.filters = filters{v.accountFilter(), v.choice("operator", "destinations.operator", "true")}
		f.Account, f.Operator = v.query("account"), v.query("operator") == "true"
	}
	var found apitypes.Page[apitypes.Destination]
	found, l.err = v.api.Destinations(v.ctx, f)
	l.items.NextCursor = found.NextCursor
	for _, d := range found.Data {
		l.items.Data = append(l.items.Data, v.destinationRow(d))
	}
	return showList(v, page{Name: "destinations", Commands: []string{v.command("notice-destinations list"), "notice-destinations add --help"}}, l)
}

// destinationForm is the form of a destination. Its fields are what the person typed.
type destinationForm struct {
	Account, Channel, Address, Language string

	All    bool     // every kind, those of later versions included
	Kinds  []string // that are chosen
	Faults map[string]string
	// The choices.
	AllKinds, Languages []choice
}

// Chosen reports whether a kind is chosen.
func (f destinationForm) Chosen(kind string) bool { return slices.Contains(f.Kinds, kind) }

// destinationForm returns the form that the person has sent, else the one of a new destination.
func (v *visit) destinationForm() destinationForm {
	f := destinationForm{
		Channel: string(postrider.ChannelEmail), Language: v.text.Language, All: true,
		AllKinds: v.choice("kind", "notice.kind", v.noticeKinds()...).Options, Languages: v.choice("language", "language", postrider.MessageLanguages...).Options,
	}
	if v.who == operators {
		f.Account = v.param("account")
	}
	if !v.h.opts.Emails {
		f.Channel = string(postrider.ChannelSlack)
	}
	if v.r.Method == http.MethodPost {
		f.Channel, f.Address, f.Language, f.All, f.Kinds = v.form("channel"), v.form("address"), v.form("language"), v.form("all") == "yes", v.posted["kind"]
		if !f.All && len(f.Kinds) == 0 { // the API takes that for a destination that gets nothing
			f.Faults = map[string]string{"kinds": v.t("destination.no_kind")}
		}
	}
	return f
}

// kinds returns the chosen kinds as the API has them. Null: all.
func (f destinationForm) kinds() apitypes.Optional[[]postrider.NoticeKind] {
	if f.All {
		return apitypes.Null[[]postrider.NoticeKind]()
	}
	var kinds []postrider.NoticeKind
	for _, kind := range f.Kinds {
		kinds = append(kinds, postrider.NoticeKind(kind))
	}
	return apitypes.Of(kinds)
}

// newDestination shows the form of a new destination.
func newDestination(v *visit) error {
	if !v.can(postrider.ScopeEndpointsWrite) {
		return errForbidden
	}
	return v.showNewDestination(v.destinationForm())
}

func (v *visit) showNewDestination(f destinationForm) error {
	p := page{Name: "destinations-new", Data: f, Commands: []string{"notice-destinations add --help"}}
	if f.Faults != nil {
		p.Status = http.StatusUnprocessableEntity
	}
	return v.show(p)
}

// createDestination adds a destination.
func createDestination(v *visit) error {
	f := v.destinationForm()
	if f.Faults != nil {
		return v.showNewDestination(f)
	}
	made, err := v.api.CreateDestination(v.ctx, apitypes.DestinationCreate{
		Account: f.Account, Channel: postrider.Channel(f.Channel), Address: f.Address, Language: f.Language, Kinds: f.kinds(),
	})
	var refused bool
	if f.Faults, refused = v.faulty(err); refused {
		return v.showNewDestination(f)
	}
	if err != nil {
		return err
	}
	done := "destination.done.add"
	if made.State == postrider.DestinationWaiting {
		done = "destination.done.ask"
	}
	return v.done(v.path("notice-destinations", made.ID), flash{Text: v.t(done, "address", made.Address)})
}

// destination returns the destination in the path of the request.
func (v *visit) destination() (apitypes.Destination, error) {
	id, err := pathID(v, "destination", postrider.ParseID[postrider.DestinationID])
	if err != nil {
		return apitypes.Destination{}, err
	}
	return v.api.Destination(v.ctx, id)
}

// destinationPage is the data of the page of one destination.
type destinationPage struct {
	destinationRow

	Form destinationForm
}

// showDestination shows one destination, with the form that changes it.
func showDestination(v *visit) error {
	d, err := v.destination()
	if err != nil {
		return err
	}
	f := v.destinationForm()
	if f.Language = d.Language; d.Kinds != nil {
		f.All, f.Kinds = false, words(*d.Kinds)
	}
	return v.showDestinationWith(d, f)
}

func (v *visit) showDestinationWith(d apitypes.Destination, f destinationForm) error {
	if v.who == operators && d.Account != nil {
		a, err := v.api.Account(v.ctx, d.Account.String())
		if err != nil {
			return err
		}
		if a.Name != "" {
			v.names.accounts = map[postrider.AccountID]shownName{a.ID: {Text: a.Name, Title: a.Name}}
		}
	}
	p := page{Name: "destinations-one", Title: d.Address, Data: destinationPage{v.destinationRow(d), f}, Commands: []string{
		"notice-destinations get " + d.ID.String(), "notice-destinations test " + d.ID.String(),
	}}
	if f.Faults != nil {
		p.Status = http.StatusUnprocessableEntity
	}
	return v.show(p)
}

// changeDestination changes the language and the kinds.
func changeDestination(v *visit) error {
	d, err := v.destination()
	if err != nil {
		return err
	}
	f := v.destinationForm()
	if f.Faults != nil {
		return v.showDestinationWith(d, f)
	}
	_, err = v.api.ChangeDestination(v.ctx, d.ID, apitypes.DestinationUpdate{Language: &f.Language, Kinds: f.kinds()})
	var refused bool
	if f.Faults, refused = v.faulty(err); refused {
		return v.showDestinationWith(d, f)
	}
	if err != nil {
		return err
	}
	return v.done(v.path("notice-destinations", d.ID), flash{Text: v.t("destination.done.change")})
}

// askDestination returns the handler of a button that asks for a message. Its text when that is
// done is destination.asked.MESSAGE.
func askDestination(message string, ask func(*client.Client, context.Context, postrider.DestinationID) (apitypes.Destination, error)) func(*visit) error {
	return func(v *visit) error {
		id, err := pathID(v, "destination", postrider.ParseID[postrider.DestinationID])
		if err != nil {
			return err
		}
		said := flash{Text: v.t("destination.asked." + message)}
		_, err = ask(v.api, v.ctx, id)
		if faults, refused := v.faulty(err); refused {
			said, err = flash{Text: anyFault(faults), Warn: true}, nil
		}
		if err != nil {
			return err
		}
		return v.done(v.path("notice-destinations", id), said)
	}
}

// deleteDestination deletes a destination.
func deleteDestination(v *visit) error {
	id, err := pathID(v, "destination", postrider.ParseID[postrider.DestinationID])
	if err != nil {
		return err
	}
	if err := v.api.DeleteDestination(v.ctx, id); err != nil {
		return err
	}
	return v.done(v.path("notice-destinations"), flash{Text: v.t("destination.done.delete")})
}
