package web

import (
	"slices"
	"strings"
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
	if p.Traffic, err = v.traffic(v.api.Stats); err != nil {
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

// verdict says in one line whether webhooks are healthy.
type verdict struct {
	Tone string // good, warn or bad
	Text string
}

const (
	// worthSaying is the age from which on the oldest delivery is in the verdict.
	worthSaying = time.Minute
	// troubledEnd is where the list of endpoints that need a person ends.
	troubledEnd = 10
	// countEnd is where counting dead letters stops.
	countEnd = 10000
)

// verdict counts the endpoints of the list that need a person, each once, by its worst
// reason. It counts the dead letters, too, which may be of deleted endpoints, and says how
// long the oldest delivery waits.
func (v *visit) verdict(t apitypes.TroubledEndpoints, now apitypes.StatsNow) verdict {
	var failing, waiting, letters int
	for _, e := range t.Data {
		switch {
		case slices.Contains(e.Reasons, "waiting"):
			waiting++
		case slices.Equal(e.Reasons, []string{"dead_letters"}):
			letters++
		default:
			failing++
		}
	}
	said := verdict{Tone: "good", Text: v.t("verdict.well")}
	switch {
	case failing > 0:
		said = verdict{Tone: "bad"}
	case len(t.Data) > 0:
		said = verdict{Tone: "warn"}
	case now.DeadLetters > 0:
		said.Tone = "warn"
	}
	say := func(key string, n int) {
		if n > 0 {
			said.Text += " " + v.t("verdict."+key, "n", n)
		}
	}
	say("failing", failing)
	say("waiting", waiting)
	say("letters", letters)
	if len(t.Data) == troubledEnd {
		say("more", troubledEnd)
	}
	if now.DeadLetters < countEnd {
		say("dead", now.DeadLetters)
	} else {
		say("dead_many", countEnd)
	}
	age := time.Duration(known(now.OldestDueMS)) * time.Millisecond
	switch {
	case len(t.Data) == 0 && age >= 5*time.Minute: // none of an endpoint that is enabled
		said.Text += " " + v.t("verdict.held", "age", age)
	case age >= worthSaying:
		said.Text += " " + v.t("verdict.oldest", "age", age)
	case now.Pending == 0:
		said.Text += " " + v.t("verdict.none")
	default:
		say("pending", now.Pending)
	}
	said.Text = strings.TrimSpace(said.Text)
	return said
}

// known returns a number that may be unknown; then 0.
func known(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
