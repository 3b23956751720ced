// Package notices has the pages of notices, of their destinations, and of the links in emails.
package notices

import (
	"embed"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages of notices, of their destinations, and of the links in emails.
func Feature(from Readers) page.Feature {
	const one = " /notice-destinations/{destination}"
	return page.Feature{
		Templates: templates,
		Everyone: page.Routes{
			"GET /notices":                 listNotices,
			"GET /notice-destinations":     listDestinations,
			"GET /notice-destinations/new": newDestination,
			"POST /notice-destinations":    createDestination,
			"GET" + one:                    page.OfID("destination", showDestination),
			"POST" + one:                   page.OfID("destination", changeDestination),
			"POST" + one + "/test":         page.OfID("destination", askDestination("test", (*client.Client).TestDestination)),
			"POST" + one + "/confirmation": page.OfID("destination", askDestination("confirmation", (*client.Client).AskToConfirm)),
			"POST" + one + "/delete":       page.OfID("destination", deleteDestination),
		},
		Public: linkRoutes(from),
	}
}

// noticeRow is a notice in the words of the pages.
type noticeRow struct {
	apitypes.Notice

	What     string               // its kind
	Endpoint postrider.EndpointID // the object, if it is an endpoint
	Path     string               // of another object; empty: there is no page
	Said     []noticeDetail
}

// noticeDetail is a detail of a notice.
type noticeDetail struct {
	Label, Text string
	At          time.Time // zero: it is no time
}

// listNotices shows notices, newest first.
func listNotices(v *page.Visit) error {
	from, fromTime := v.TimeFilter("from")
	to, toTime := v.TimeFilter("to")
	f := page.Filters{v.Choice("kind", "notice.kind", noticeKinds(v)...), v.TextFilter("object")}
	f = append(append(f, v.AccountFilter()...), from, to)
	notices, err := v.API.Notices(v.Context, client.NoticeFilter{
		Account: v.Query("account"), Kind: postrider.NoticeKind(v.Query("kind")), Object: v.Query("object"),
		From: fromTime, To: toTime, Paging: v.Paging(),
	})
	var endpoints []postrider.EndpointID
	rows := page.RowsOf(notices, func(n apitypes.Notice) noticeRow {
		row := noticeRowOf(v, n)
		if !row.Endpoint.IsZero() {
			endpoints = append(endpoints, row.Endpoint)
		}
		return row
	})
	if err := v.NameEndpoints(v.Context, endpoints); err != nil {
		return err
	}
	return page.ShowList(v, page.View{Name: "notices", Filters: f, Commands: []string{"notices"}}, rows, err)
}

// noticeKinds returns the kinds of notices that the person can get.
func noticeKinds(v *page.Visit) (kinds []string) {
	for _, kind := range postrider.NoticeKinds {
		if !kind.OfInstallation() || v.Who == page.Operators {
			kinds = append(kinds, string(kind))
		}
	}
	return kinds
}

// noticeRowOf returns a notice in the words of the pages. If a kind or a detail has no text, the
// page shows the word of the API.
func noticeRowOf(v *page.Visit, n apitypes.Notice) noticeRow {
	row := noticeRow{Notice: n, What: v.Text.Or(n.Kind, "notice.kind."+n.Kind)}
	if id, err := postrider.ParseID[postrider.EndpointID](n.Object); err == nil {
		row.Endpoint = id
	} else if _, err := postrider.ParseID[postrider.ReplayID](n.Object); err == nil {
		row.Path = v.Path("replays", n.Object)
	} else if _, err := postrider.ParseID[postrider.SourceID](n.Object); err == nil {
		row.Path = v.Path("sources", n.Object)
	} else if _, err := postrider.ParseID[postrider.AccountID](n.Object); err == nil && v.Who == page.Operators {
		row.Path = v.Path("accounts", n.Object)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Details)) {
		value := n.Details[name]
		d := noticeDetail{Label: v.Text.Or(name, "notice.detail."+name)}
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			d.At = at
		} else if name == "quota" {
			d.Text = v.Text.Or(value, "field."+value)
		} else {
			d.Text = v.Text.Or(value, "health."+name+"."+value, "circuit."+name+"."+value, "replay."+name+"."+value)
		}
		row.Said = append(row.Said, d)
	}
	return row
}
