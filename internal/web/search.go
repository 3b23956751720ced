package web

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// searchRoutes lists the page that searches.
func searchRoutes() []route {
	return []route{{"GET /search", everyone, showSearch}}
}

// searchPage is the data of the page that searches.
type searchPage struct {
	Text   string
	Groups []searchGroup
	Shown  int    // hits of the groups
	Total  int    // of what was found
	Type   string // the text, if it may be an event type: its events and deliveries are filters
	ID     bool   // the text is an id, so nothing else can be meant

	Faults map[string]string // why the API cannot search for the text
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

// sections has the section of the pages of each kind of object. A hit calls an API key
// api_key, and the audit log calls it key.
var sections = map[string]string{
	"account": "accounts", "endpoint": "endpoints", "event": "events", "delivery": "deliveries", "event_type": "event-types",
	"api_key": "api-keys", "key": "api-keys", "replay": "replays", "notice_destination": "notice-destinations",
}

// idText is how ids are written.
var idText = regexp.MustCompile(`^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$`)

// showSearch shows what a text names. An id leads to its object at once.
func showSearch(v *visit) error {
	p := searchPage{Text: v.query("q")}
	if p.Text == "" {
		return v.show(page{Name: "search", Data: p})
	}
	hits, err := v.api.SearchHits(v.ctx, p.Text)
	var refused bool
	if p.Faults, refused = v.faulty(err); refused {
		return v.show(page{Name: "search", Status: statusOf(err), Data: p})
	}
	if err != nil {
		return err
	}
	if err := p.group(v, hits); err != nil {
		return err
	}
	if p.Shown == 1 && p.Groups[0].Hits[0].MatchedBy == "id" {
		http.Redirect(v.w, v.r, p.Groups[0].Hits[0].Path, http.StatusSeeOther)
		return nil
	}
	p.ID = idText.MatchString(p.Text)
	if !p.ID && postrider.CheckType("q", p.Text) == nil && !strings.ContainsAny(p.Text, "/:") {
		p.Type = p.Text
	}
	return v.show(page{Name: "search", Data: p, Commands: []string{"search " + shellWord(p.Text)}})
}

// group groups the hits by their kinds, in the order of the first of each, and names their
// endpoints and accounts. Customers have no page of their account.
func (p *searchPage) group(v *visit, found apitypes.SearchHits) error {
	p.Total = found.Total
	var endpoints []postrider.EndpointID
	for _, hit := range found.Data {
		section := sections[hit.Kind]
		if v.who != operators && section == "accounts" {
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
		p.Groups[at].Hits = append(p.Groups[at].Hits, searchHit{hit, v.path(section, hit.ID)})
		p.Shown++
	}
	if v.who == operators && v.names.accounts == nil && p.Shown > 0 {
		v.accountFilter()
	}
	return v.nameEndpoints(v.ctx, endpoints)
}
