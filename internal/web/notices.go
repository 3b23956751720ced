package web

import (
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// noticeRoutes lists the page of what people should know.
func noticeRoutes() []route {
	return []route{{"GET /notices", everyone, listNotices}}
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
func listNotices(v *visit) error {
	from, fromTime := v.timeFilter("from")
	to, toTime := v.timeFilter("to")
	l := listed[noticeRow]{filters: filters{v.choice("kind", "notice.kind", v.noticeKinds()...), v.textFilter("object"), from, to}}
	if v.who == operators {
		l.filters = slices.Insert(l.filters, 2, v.accountFilter())
	}
	var notices apitypes.Page[apitypes.Notice]
	notices, l.err = v.api.Notices(v.ctx, client.NoticeFilter{
		Account: v.query("account"), Kind: postrider.NoticeKind(v.query("kind")), Object: v.query("object"),
		From: fromTime, To: toTime, Paging: v.paging(),
	})
	l.items.NextCursor = notices.NextCursor
	for _, n := range notices.Data {
		l.items.Data = append(l.items.Data, v.noticeRow(n))
	}
	var endpoints []postrider.EndpointID
	for _, row := range l.items.Data {
		if !row.Endpoint.IsZero() {
			endpoints = append(endpoints, row.Endpoint)
		}
	}
	if err := v.nameEndpoints(v.ctx, endpoints); err != nil {
		return err
	}
	return showList(v, page{Name: "notices", Commands: []string{"notices"}}, l)
}

// noticeKinds returns the kinds of notices that the person can get.
func (v *visit) noticeKinds() (kinds []string) {
	for _, kind := range postrider.NoticeKinds {
		if !kind.OfInstallation() || v.who == operators {
			kinds = append(kinds, string(kind))
		}
	}
	return kinds
}

// noticeRow puts a notice into words. A kind and a detail without a text are shown as the API
// has them.
func (v *visit) noticeRow(n apitypes.Notice) noticeRow {
	row := noticeRow{Notice: n, What: v.textOr(n.Kind, "notice.kind."+n.Kind)}
	if id, err := postrider.ParseID[postrider.EndpointID](n.Object); err == nil {
		row.Endpoint = id
	} else if _, err := postrider.ParseID[postrider.ReplayID](n.Object); err == nil {
		row.Path = v.path("replays", n.Object)
	} else if _, err := postrider.ParseID[postrider.AccountID](n.Object); err == nil && v.who == operators {
		row.Path = v.path("accounts", n.Object)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Details)) {
		value := n.Details[name]
		d := noticeDetail{Label: v.textOr(name, "notice.detail."+name)}
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			d.At = at
		} else if name == "quota" {
			d.Text = v.textOr(value, "field."+value)
		} else {
			d.Text = v.textOr(value, "health."+name+"."+value, "circuit."+name+"."+value, "replay."+name+"."+value)
		}
		row.Said = append(row.Said, d)
	}
	return row
}

// textOr returns the text of the first key that has one; otherwise the given text.
func (v *visit) textOr(otherwise string, keys ...string) string {
	for _, key := range keys {
		if v.text.has(key) {
			return v.t(key)
		}
	}
	return otherwise
}
