package web

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// overviewRoutes lists the start page of operators.
func overviewRoutes() []route {
	return []route{{"GET /", operators, showOverview}}
}

// overviewPage is the data of the overview.
type overviewPage struct {
	Verdict  verdict
	Traffic  *traffic
	Troubled apitypes.TroubledEndpoints
	Nodes    []apitypes.Node // nil: the person may not see them
}

// showOverview shows whether webhooks are healthy, and what needs a person.
func showOverview(v *visit) (err error) {
	var p overviewPage
	if p.Troubled, err = v.api.TroubledEndpoints(v.ctx); err != nil {
		return err
	}
	v.nameTroubled(p.Troubled.Data)
	if p.Traffic, err = v.traffic("", v.api.Stats); err != nil {
		return err
	}
	p.Verdict = v.verdict(p.Troubled, p.Traffic.Stats.Now)
	commands := []string{"stats", "endpoints troubled"}
	if v.can(postrider.ScopeAdmin) {
		if p.Nodes, err = v.api.Nodes(v.ctx); err != nil {
			return err
		}
		commands = append(commands, "nodes", resumeCommand)
	}
	return v.show(page{Name: "overview", Data: p, Commands: commands})
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
	// worthSaying is the age from which on the oldest delivery is in the verdict.
	worthSaying = time.Minute
	// countEnd is where counting dead letters and pending deliveries stops.
	countEnd = 10000
	// failingEnd is where counting endpoints stops.
	failingEnd = 1000
)

// verdict counts the endpoints that need a person, each once, by its worst reason. It counts
// the dead letters, too, which may be of deleted endpoints, and says how long the oldest
// delivery waits.
func (v *visit) verdict(t apitypes.TroubledEndpoints, now apitypes.StatsNow) verdict {
	said := verdict{Tone: "good"}
	say := func(key, link string, n, end int) {
		if n > 0 {
			said.Sentences = append(said.Sentences, sentence{v.t("verdict."+key, "n", n, "more", plus(n >= end)), link})
		}
	}
	switch {
	case t.Failing > 0:
		said.Tone = "bad"
	case len(t.Data) > 0:
		said.Tone = "warn"
	default:
		said.Sentences = append(said.Sentences, sentence{v.t("verdict.well"), ""})
		if now.DeadLetters > 0 {
			said.Tone = "warn"
		}
	}
	say("failing", v.path("endpoints")+"?health=failing", t.Failing, failingEnd)
	say("waiting", "", t.Waiting, failingEnd)
	say("letters", v.path("dead-letters"), t.DeadOnly, failingEnd)
	say("dead", v.path("dead-letters"), now.DeadLetters, countEnd)
	age := time.Duration(known(now.OldestDueMS)) * time.Millisecond
	switch {
	case len(t.Data) == 0 && age >= 5*time.Minute: // none of an endpoint that is enabled
		said.Sentences = append(said.Sentences, sentence{v.t("verdict.held", "age", age), v.path("deliveries") + "?status=pending"})
	case age >= worthSaying:
		said.Sentences = append(said.Sentences, sentence{v.t("verdict.oldest", "age", age), v.path("deliveries") + "?status=pending"})
	case now.Pending == 0:
		said.Sentences = append(said.Sentences, sentence{v.t("verdict.none"), ""})
	default:
		say("pending", v.path("deliveries")+"?status=pending", now.Pending, countEnd)
	}
	return said
}

// plus returns the sign after a number at which counting stopped.
func plus(more bool) string {
	if more {
		return "+"
	}
	return ""
}

// known returns a number that may be unknown; then 0.
func known(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
