// Package sources has the pages of the outboxes of producers, from which events are read.
package sources

import (
	"context"
	"embed"
	"errors"
	"net/http"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/payload"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages of sources.
func Feature() page.Feature {
	const one = " /sources/{source}"
	return page.Feature{
		Templates: templates,
		Operators: page.Routes{
			"GET /sources":            list,
			"GET" + one:               page.OfID("source", show),
			"POST" + one + "/pause":   page.OfID("source", change("paused", (*client.Client).PauseSource)),
			"POST" + one + "/resume":  page.OfID("source", change("resumed", (*client.Client).ResumeSource)),
			"POST" + one + "/delete":  page.OfID("source", remove),
			"POST" + one + "/retry":   page.OfID("source", retry),
			"POST" + one + "/discard": page.OfID("source", discard),
		},
	}
}

// list shows all sources.
func list(v *page.Visit) error {
	sources, err := v.API.Sources(v.Context)
	return page.ShowList(v, page.View{
		Name: "sources", Commands: []string{"sources list", "sources put --help"},
	}, apitypes.Page[apitypes.Source]{Data: sources}, err)
}

// rowShown is a rejected row with the beginning of its data.
type rowShown struct {
	apitypes.RejectedRow

	Text string // JSON has line breaks
	Cut  bool   // Text is only the beginning
}

// sourcePage is the data of the page of one source.
type sourcePage struct {
	apitypes.Source
	page.Listed[rowShown]

	Away          string // why the database of the producer cannot be read; empty: it was
	Account, Code string // the filters
}

// show shows a source and its rejected rows. If its database cannot be reached, the page says so, and shows
// what the reader knew last.
func show(v *page.Visit, id postrider.SourceID) error {
	source, err := v.API.Source(v.Context, id.String())
	if err != nil {
		return err
	}
	p := sourcePage{Source: source, Account: v.Query("account"), Code: v.Query("code")}
	rows, err := v.API.RejectedRows(v.Context, id.String(), client.RejectedFilter{Account: p.Account, Code: p.Code, Paging: v.Paging()})
	faults := v.Faulty(err)
	if problem, ok := errors.AsType[*client.Error](err); ok && problem.Status == http.StatusServiceUnavailable {
		p.Away, err = problem.Detail, nil
	}
	if err != nil && faults == nil {
		return err
	}
	shown := page.RowsOf(rows, func(r apitypes.RejectedRow) rowShown {
		data, err := postrider.ParseData(r.ContentType, r.Data, r.DataEncoding)
		if err != nil {
			data = r.Data
		}
		text, cut := payload.Clip(page.PrettyJSON(data), payload.MaxRaw)
		return rowShown{r, text, cut}
	})
	p.Listed = page.Listed[rowShown]{
		List: page.ListOf(v, shown, page.Filters{v.TextFilter("account"), v.TextFilter("code")}), Faults: faults,
	}
	name := page.ShellWord(source.Name)
	return v.Show(page.View{
		Name: "sources-one", Title: source.Name, Data: p, Refused: faults != nil,
		Commands: []string{"sources get " + name, "sources state " + name, v.Command("sources rejected " + name)},
	})
}

// change returns the handler of a button that changes a source. The page then shows the text
// source.done.DONE.
func change(
	done string, call func(*client.Client, context.Context, string) (apitypes.Source, error),
) func(*page.Visit, postrider.SourceID) error {
	return func(v *page.Visit, id postrider.SourceID) error {
		_, err := call(v.API, v.Context, id.String())
		return v.DoneUnless(err, v.Path("sources", id), page.Flash{Text: v.T("source.done." + done)})
	}
}

// remove deletes a source.
func remove(v *page.Visit, id postrider.SourceID) error {
	if err := v.API.DeleteSource(v.Context, id.String()); err != nil {
		return err
	}
	return v.Done(v.Path("sources"), page.Flash{Text: v.T("source.done.deleted")})
}

// selected returns the rows that the form selects: one row, or all that the filters of the page select.
func selected(v *page.Visit) apitypes.RejectedSelect {
	if id := v.Form("row"); id != "" {
		return apitypes.RejectedSelect{IDs: []string{id}}
	}
	return apitypes.RejectedSelect{Account: v.Form("account"), Code: v.Form("code")}
}

// retry puts rejected rows back.
func retry(v *page.Visit, id postrider.SourceID) error {
	did, err := v.API.RetryRejected(v.Context, id.String(), apitypes.RejectedRetry{
		RejectedSelect: selected(v), NewAccount: v.Form("new_account"), NewType: v.Form("new_type"),
	})
	return v.DoneUnless(err, v.Path("sources", id), page.Flash{Text: v.T("source.done.retried", "n", did.Rows)})
}

// discard deletes rejected rows.
func discard(v *page.Visit, id postrider.SourceID) error {
	did, err := v.API.DiscardRejected(v.Context, id.String(), selected(v))
	return v.DoneUnless(err, v.Path("sources", id), page.Flash{Text: v.T("source.done.discarded", "n", did.Rows)})
}
