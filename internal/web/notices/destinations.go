package notices

import (
	"context"
	"net/http"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

// destinationRow is a destination in the words of the pages.
type destinationRow struct {
	apitypes.Destination

	Badges []string // its state, and whether it fails
	Why    string   // why the last message was not sent; empty: it was, or there was none
	Chosen []string // the kinds of notices that it gets; nil: all
	Ended  []string // the kinds that its reader no longer wants
	May    bool     // the person may change it
}

// destinationRowOf returns a destination in the words of the pages.
func destinationRowOf(v *page.Visit, d apitypes.Destination) destinationRow {
	row := destinationRow{
		Destination: d, Badges: []string{string(d.State)}, Ended: kindWords(v, d.Unsubscribed),
		May: v.Can(postrider.ScopeEndpointsWrite),
	}
	if d.Account == nil {
		row.May = v.Can(postrider.ScopeAdmin)
	}
	if d.Kinds != nil {
		row.Chosen = kindWords(v, *d.Kinds)
	}
	if d.LastError == nil {
		return row
	}
	row.Why = v.Text.Cause(*d.LastError)
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

// MayAsk reports whether the person may ask the reader for a confirmation again.
func (d destinationRow) MayAsk() bool {
	return d.May && d.Channel == postrider.ChannelEmail && (d.State != postrider.DestinationActive || len(d.Unsubscribed) > 0)
}

// kindWords returns the names of kinds of notices for people. It is never nil.
func kindWords(v *page.Visit, kinds []postrider.NoticeKind) []string {
	said := []string{}
	for _, kind := range kinds {
		if kind == postrider.AllKinds {
			said = append(said, v.T("destination.all_kinds"))
		} else {
			said = append(said, v.Text.Or(string(kind), "notice.kind."+string(kind)))
		}
	}
	return said
}

// listDestinations shows the destinations of notices. Operators see all; customers see the
// destinations of their account.
func listDestinations(v *page.Visit) error {
	var shown page.Filters
	f := client.DestinationFilter{Paging: v.Paging()}
	if v.Who == page.Operators {
		shown = append(v.AccountFilter(), v.Choice("operator", "destinations.operator", "true"))
		f.Account, f.Operator = v.Query("account"), v.Query("operator") == "true"
	}
	found, err := v.API.Destinations(v.Context, f)
	rows := page.RowsOf(found, func(d apitypes.Destination) destinationRow { return destinationRowOf(v, d) })
	return page.ShowList(v, page.View{
		Name: "destinations", Filters: shown,
		Commands: []string{v.Command("notice-destinations list"), "notice-destinations add --help"},
	}, rows, err)
}

// destinationForm is the form of a destination, with the values that the person typed.
type destinationForm struct {
	Account, Channel, Address, Language string

	All    bool     // every kind, those of later versions included
	Kinds  []string // that are chosen
	Faults map[string]string
	// The choices.
	AllKinds, Languages []page.Choice
}

// Chosen reports whether a kind is chosen.
func (f destinationForm) Chosen(kind string) bool { return slices.Contains(f.Kinds, kind) }

// destinationFormOf returns the form that the person sent; if none was sent, an empty form.
func destinationFormOf(v *page.Visit) destinationForm {
	f := destinationForm{
		Channel: string(postrider.ChannelEmail), Language: v.Text.Language, All: true,
		AllKinds:  v.Choice("kind", "notice.kind", noticeKinds(v)...).Options,
		Languages: v.Choice("language", "language", postrider.MessageLanguages...).Options,
	}
	if v.Who == page.Operators {
		f.Account = v.Param("account")
	}
	if !v.Site.Options.Emails {
		f.Channel = string(postrider.ChannelSlack)
	}
	if v.Request.Method == http.MethodPost {
		f.Channel, f.Address, f.Language, f.All, f.Kinds = v.Form("channel"), v.Form("address"), v.Form("language"), v.Form("all") == "yes",
			v.Posted["kind"]
		if !f.All && len(f.Kinds) == 0 { // the API takes an empty list for a destination that gets nothing
			f.Faults = map[string]string{"kinds": v.T("destination.no_kind")}
		}
	}
	return f
}

// kinds returns the chosen kinds for the API. Null: all kinds.
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
func newDestination(v *page.Visit) error {
	if !v.Can(postrider.ScopeEndpointsWrite) {
		return page.ErrForbidden
	}
	return showNewDestination(v, destinationFormOf(v))
}

func showNewDestination(v *page.Visit, f destinationForm) error {
	return v.Show(page.View{Name: "destinations-new", Data: f, Refused: f.Faults != nil, Commands: []string{"notice-destinations add --help"}})
}

// createDestination adds a destination.
func createDestination(v *page.Visit) error {
	f := destinationFormOf(v)
	if f.Faults != nil {
		return showNewDestination(v, f)
	}
	made, err := v.API.CreateDestination(v.Context, apitypes.DestinationCreate{
		Account: f.Account, Channel: postrider.Channel(f.Channel), Address: f.Address, Language: f.Language, Kinds: f.kinds(),
	})
	if f.Faults = v.Faulty(err); f.Faults != nil {
		return showNewDestination(v, f)
	}
	if err != nil {
		return err
	}
	done := "destination.done.add"
	if made.State == postrider.DestinationWaiting {
		done = "destination.done.ask"
	}
	return v.Done(v.Path("notice-destinations", made.ID), page.Flash{Text: v.T(done, "address", made.Address)})
}

// destinationPage is the data of the page of one destination.
type destinationPage struct {
	destinationRow

	Form destinationForm
}

// showDestination shows one destination, with the form that changes it.
func showDestination(v *page.Visit, id postrider.DestinationID) error {
	d, err := v.API.Destination(v.Context, id)
	if err != nil {
		return err
	}
	f := destinationFormOf(v)
	if f.Language = d.Language; d.Kinds != nil {
		f.All, f.Kinds = false, page.Words(*d.Kinds)
	}
	return showDestinationWith(v, d, f)
}

func showDestinationWith(v *page.Visit, d apitypes.Destination, f destinationForm) error {
	if v.Who == page.Operators && d.Account != nil {
		a, err := v.API.Account(v.Context, d.Account.String())
		if err != nil {
			return err
		}
		if a.Name != "" {
			v.Names.Accounts = map[postrider.AccountID]page.Name{a.ID: {Text: a.Name, Title: a.Name}}
		}
	}
	return v.Show(page.View{
		Name: "destinations-one", Title: d.Address, Data: destinationPage{destinationRowOf(v, d), f},
		Refused: f.Faults != nil, Commands: []string{
			"notice-destinations get " + d.ID.String(), "notice-destinations test " + d.ID.String(),
		},
	})
}

// changeDestination changes the language and the kinds.
func changeDestination(v *page.Visit, id postrider.DestinationID) error {
	d, err := v.API.Destination(v.Context, id)
	if err != nil {
		return err
	}
	f := destinationFormOf(v)
	if f.Faults != nil {
		return showDestinationWith(v, d, f)
	}
	_, err = v.API.ChangeDestination(v.Context, d.ID, apitypes.DestinationUpdate{Language: &f.Language, Kinds: f.kinds()})
	if f.Faults = v.Faulty(err); f.Faults != nil {
		return showDestinationWith(v, d, f)
	}
	if err != nil {
		return err
	}
	return v.Done(v.Path("notice-destinations", d.ID), page.Flash{Text: v.T("destination.done.change")})
}

// askDestination returns the handler of a button that asks the API to send a message to the
// destination, such as a test. After success the page shows the text destination.asked.MESSAGE.
func askDestination(message string, ask func(*client.Client, context.Context, postrider.DestinationID) (apitypes.Destination,
	error),
) func(*page.Visit, postrider.DestinationID) error {
	return func(v *page.Visit, id postrider.DestinationID) error {
		_, err := ask(v.API, v.Context, id)
		return v.DoneUnless(err, v.Path("notice-destinations", id), page.Flash{Text: v.T("destination.asked." + message)})
	}
}

// deleteDestination deletes a destination.
func deleteDestination(v *page.Visit, id postrider.DestinationID) error {
	if err := v.API.DeleteDestination(v.Context, id); err != nil {
		return err
	}
	return v.Done(v.Path("notice-destinations"), page.Flash{Text: v.T("destination.done.delete")})
}
