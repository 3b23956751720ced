// Package search finds objects by an id, a name, a part of a URL, or a value in the data of an event.
package search

import (
	"embed"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Feature returns the page that searches.
func Feature() page.Feature {
	return page.Feature{Templates: templates, Everyone: page.Routes{"GET /search": showSearch}}
}

// searchPage is the data of the page that searches.
type searchPage struct {
	Text   string
	Groups []searchGroup
	Shown  int    // hits of the groups
	Total  int    // of what was found
	Type   string // the text, if it may be an event type: its events and deliveries are filters
	ID     bool   // the text is an id, so nothing else can be meant

	Accounts page.Filters // the account to search; empty: the person sees one account
	Account  string
	Paths    []string // paths at which values were searched

	Faults map[string]string // why the API cannot search for the text
	Row    string            // where the row of an outbox is that the text names, if it is not published
}

// searchGroup has the hits of one kind.
type searchGroup struct {
	Kind string
	Hits []searchHit
}

// searchHit is a hit with the path of its page.
type searchHit struct {
	apitypes.SearchHit

	Path string
}

// idText matches the text of an id.
var idText = regexp.MustCompile(`^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$`)

// showSearch shows the objects that match a text. For an id it redirects to the object.
func showSearch(v *page.Visit) error {
	p := searchPage{Text: v.Query("q"), Account: v.Query("account"), Accounts: v.AccountFilter()}
	if p.Text == "" {
		return v.Show(page.View{Name: "search", Data: p})
	}
	hits, err := v.API.SearchHits(v.Context, client.SearchFilter{Text: p.Text, Account: p.Account})
	if p.Faults = v.Faulty(err); p.Faults != nil {
		return v.Show(page.View{Name: "search", Status: page.StatusOf(err), Data: p})
	}
	if problem, ok := errors.AsType[*client.Error](err); ok && problem.Status == http.StatusNotFound {
		p.Row = v.Text.Detail(problem)
		return v.Show(page.View{Name: "search", Status: problem.Status, Data: p, Commands: []string{"events get " + page.ShellWord(p.Text)}})
	}
	if err != nil {
		return err
	}
	if err := p.group(v, hits); err != nil {
		return err
	}
	if p.Shown == 1 && p.Groups[0].Hits[0].MatchedBy == "id" {
		http.Redirect(v.Writer, v.Request, p.Groups[0].Hits[0].Path, http.StatusSeeOther)
		return nil
	}
	p.ID = idText.MatchString(p.Text)
	if !p.ID && postrider.CheckType("q", p.Text) == nil && !strings.ContainsAny(p.Text, "/:") {
		p.Type = p.Text
	}
	return v.Show(page.View{Name: "search", Data: p, Commands: []string{"search " + page.ShellWord(p.Text)}})
}

// group groups the hits by kind, in the order of the first hit of each kind. It reads the names
// of their endpoints and accounts. Customers have no page of their account.
func (p *searchPage) group(v *page.Visit, found apitypes.SearchHits) error {
	p.Total, p.Paths = found.Total, found.ValuePaths
	var endpoints []postrider.EndpointID
	for _, hit := range found.Data {
		section := page.Sections[hit.Kind]
		if v.Who != page.Operators && section == "accounts" {
			p.Total--
			continue
		}
		if id, err := postrider.ParseID[postrider.EndpointID](hit.ID); err == nil {
			endpoints = append(endpoints, id)
		}
		at := slices.IndexFunc(p.Groups, func(g searchGroup) bool { return g.Kind == hit.Kind })
		if at < 0 {
			at, p.Groups = len(p.Groups), append(p.Groups, searchGroup{Kind: hit.Kind})
		}
		p.Groups[at].Hits = append(p.Groups[at].Hits, searchHit{hit, v.Path(section, hit.ID)})
		p.Shown++
	}
	return v.NameEndpoints(v.Context, endpoints)
}
