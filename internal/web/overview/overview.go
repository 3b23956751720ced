// Package overview shows operators at a glance whether webhooks are healthy, and what needs a
// person.
package overview

import (
	"embed"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/traffic"
)

//go:embed *.html
var templates embed.FS

// nameTroubled sets the names of the endpoints that need a person, and of their accounts.
func nameTroubled(v *page.Visit, troubled []apitypes.TroubledEndpoint) {
	if v.Names.Endpoints == nil {
		v.Names.Endpoints = map[postrider.EndpointID]page.Name{}
	}
	for _, t := range troubled {
		v.Names.Endpoints[t.Endpoint] = v.NameOf(apitypes.Endpoint{ID: t.Endpoint, Account: t.Account, URL: t.URL, Description: t.Description})
	}
	if v.Names.Accounts == nil {
		v.AccountFilter()
	}
}

// Feature returns the start page of operators.
func Feature() page.Feature {
	return page.Feature{Templates: templates, Operators: page.Routes{"GET /": showOverview}}
}

// overviewPage is the data of the overview.
type overviewPage struct {
	Verdict  verdict
	Traffic  *traffic.Traffic
	Troubled apitypes.TroubledEndpoints
	Sources  []apitypes.Source // those that need a person; nil: none, or the person may not see them
	Nodes    []apitypes.Node   // nil: the person may not see them
}

// showOverview shows whether webhooks are healthy, and what needs a person.
func showOverview(v *page.Visit) (err error) {
	var p overviewPage
	if p.Troubled, err = v.API.TroubledEndpoints(v.Context); err != nil {
		return err
	}
	nameTroubled(v, p.Troubled.Data)
	if p.Traffic, err = traffic.Read(v, "", v.API.Stats); err != nil {
		return err
	}
	commands := []string{"stats", "endpoints troubled"}
	if v.Can(postrider.ScopeAdmin) {
		if p.Nodes, err = v.API.Nodes(v.Context); err != nil {
			return err
		}
		if p.Sources, err = v.API.Sources(v.Context); err != nil {
			return err
		}
		p.Sources = slices.DeleteFunc(p.Sources, func(s apitypes.Source) bool { return s.Status() != "stopped" && s.State.Rejected == 0 })
		commands = append(commands, "nodes", "sources list", page.ResumeCommand)
	}
	p.Verdict = verdictOf(v, p.Troubled, p.Sources, p.Traffic.Stats.Now)
	return v.Show(page.View{Name: "overview", Data: p, Commands: commands})
}

// verdict says in a few sentences whether webhooks are healthy. The first one is the most
// important.
type verdict struct {
	Tone      string // good, warn or bad
	Sentences []sentence
}

// sentence is a text that may lead to a page.
type sentence struct{ Text, Link string }

const (
	// worthSaying is the age of the oldest delivery from which the verdict mentions it.
	worthSaying = time.Minute
	// failingEnd is the number at which counting endpoints stops.
	failingEnd = 1000
)

// verdictOf counts the sources that need a person, and the endpoints that do, each endpoint once, by its worst
// reason. It also counts the dead letters, which may be of deleted endpoints. It says how long the oldest
// delivery has waited.
func verdictOf(v *page.Visit, t apitypes.TroubledEndpoints, sources []apitypes.Source, now apitypes.StatsNow) verdict {
	said := verdict{Tone: "good"}
	say := func(key, link string, n, end int) {
		if n > 0 {
			said.Sentences = append(said.Sentences, sentence{v.T("verdict."+key, "n", n, "more", page.Plus(n >= end)), link})
		}
	}
	stopped, rejected := 0, 0
	for _, s := range sources {
		if s.Status() == "stopped" {
			stopped++
		}
		if s.State.Rejected > 0 {
			rejected++
		}
	}
	switch {
	case t.Failing > 0 || stopped > 0:
		said.Tone = "bad"
	case len(t.Data) > 0 || len(sources) > 0 || now.DeadLetters > 0:
		said.Tone = "warn"
	}
	say("stopped", v.Path("sources"), stopped, failingEnd)
	say("rejected", v.Path("sources"), rejected, failingEnd)
	if len(t.Data) == 0 {
		said.Sentences = append(said.Sentences, sentence{v.T("verdict.well"), ""})
	}
	say("failing", v.Path("endpoints")+"?health=failing", t.Failing, failingEnd)
	say("waiting", "", t.Waiting, failingEnd)
	say("letters", v.Path("dead-letters"), t.DeadOnly, failingEnd)
	say("dead", v.Path("dead-letters"), now.DeadLetters, page.CountEnd)
	age := time.Duration(page.Known(now.OldestDueMS)) * time.Millisecond
	switch {
	case len(t.Data) == 0 && age >= 5*time.Minute: // none of an endpoint that is enabled
		said.Sentences = append(said.Sentences, sentence{v.T("verdict.held", "age", age), v.Path("deliveries") + "?status=pending"})
	case age >= worthSaying:
		said.Sentences = append(said.Sentences, sentence{v.T("verdict.oldest", "age", age), v.Path("deliveries") + "?status=pending"})
	case now.Pending == 0:
		said.Sentences = append(said.Sentences, sentence{v.T("verdict.none"), ""})
	default:
		say("pending", v.Path("deliveries")+"?status=pending", now.Pending, page.CountEnd)
	}
	return said
}
