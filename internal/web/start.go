package web

import (
	"cmp"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/snippets"
	"github.com/postrider/postrider/signature"
)

// startRoutes lists the pages that lead from an endpoint to a verified event.
func startRoutes() []route {
	return []route{
		{"GET /endpoints/{endpoint}/start", everyone, showStart},
		{"POST /endpoints/{endpoint}/start", everyone, revealStart},
		{"GET /endpoints/{endpoint}/snippets", everyone, showSnippets},
		{"GET /endpoints/{endpoint}/tests", everyone, showTests},
		{"POST /endpoints/{endpoint}/tests", everyone, sendTest},
	}
}

// startPage is the data of the page that says what to do with a new endpoint.
type startPage struct {
	Endpoint apitypes.Endpoint
	Tab      string
	Secrets  []apitypes.Secret // empty: the page does not show them
	New      bool              // the endpoint was created just now
	Code     codeBlock
	Once     bool        // the person can never see the secrets again
	Codes    []codeBlock // of a page with secrets: every language, since a link would leave the page with the secret
	Types    []string    // that a test event may have
}

// showStart shows the next steps of an endpoint, without its secret.
func showStart(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	return v.showStart(startPage{Endpoint: e, New: v.query("created") != ""})
}

// revealStart shows the next steps with the newest secret, as the answer to a form. The
// page without it has the same URL.
func revealStart(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	states, err := v.api.SecretStates(v.ctx, e.ID)
	if err != nil {
		return err
	}
	var secrets []apitypes.Secret
	if len(states) > 0 {
		newest, err := v.api.RevealSecret(v.ctx, e.ID, states[0].ID)
		if err != nil {
			return err
		}
		secrets = append(secrets, newest)
	}
	return v.showStart(startPage{Endpoint: e, Secrets: secrets})
}

// created leads to the next steps of a new endpoint. That page can be loaded again, and
// reveals the secret there. A person who may create endpoints and may not read secrets gets
// the page at once, because only the response to the creation has the secret.
func (v *visit) created(e apitypes.Endpoint) error {
	if !v.can(postrider.ScopeSecretsRead) {
		return v.showStart(startPage{Endpoint: e, Secrets: e.Secrets, New: true, Once: true})
	}
	return v.redirect(v.startPath(e))
}

// startPath is the page with the next steps of an endpoint that was just created.
func (v *visit) startPath(e apitypes.Endpoint) string {
	return v.path("endpoints", e.ID, "start") + "?created=yes"
}

func (v *visit) showStart(p startPage) error {
	var err error
	if p.Code, err = v.codeOf(p.Endpoint, p.Secrets); err != nil {
		return err
	}
	p.Code.Path = v.path("endpoints", p.Endpoint.ID, "start")
	if len(p.Secrets) > 0 {
		for i := range p.Code.Languages {
			p.Codes = append(p.Codes, p.Code.in(i))
		}
	}
	if p.Types, err = v.testTypes(p.Endpoint); err != nil {
		return err
	}
	id := p.Endpoint.ID.String()
	return v.show(page{Name: "endpoints-start", Title: v.t("endpoints-start.title"), Data: p, Commands: []string{
		"endpoints secrets " + id + " --states", "endpoints reveal-secret " + id + " SECRET", "endpoints test " + id,
	}})
}

// codeBlock is a snippet that verifies what an endpoint sends, with the choice of
// language and scheme.
type codeBlock struct {
	Path      string // of the page whose links choose
	Language  string // that is shown
	Title     string // of the language
	Languages []snippets.Language
	Uses      []codeUse // that the endpoint signs in
	Chosen    codeUse
	File      string   // to save the snippet as
	Text      string   // empty: the language has no snippet for this
	Variable  string   // of the environment that the snippet reads
	Headers   []string // that the receiver needs
	Expires   bool     // a recorded request is refused after a while
}

// codeUse is a way to verify: the scheme, and of ed25519 its public key.
type codeUse struct {
	Name string // in URLs
	Use  snippets.Use
}

// codeOf returns the snippet for an endpoint. Language and scheme are those of the URL;
// the language is remembered.
func (v *visit) codeOf(e apitypes.Endpoint, secrets []apitypes.Secret) (codeBlock, error) {
	b := codeBlock{Path: v.path("endpoints", e.ID, "snippets"), Languages: snippets.Languages()}
	public := slices.ContainsFunc(secrets, func(s apitypes.Secret) bool { return s.PublicKey != nil })
	if len(secrets) == 0 {
		keys, err := v.api.PublicKeys(v.ctx, e.ID, client.Paging{Limit: 1})
		if err != nil && statusOf(err) != 404 {
			return b, err
		}
		public = len(keys.Data) > 0
	}
	b.Uses = usesOf(e, public)
	b.Chosen = b.Uses[0]
	if i := slices.IndexFunc(b.Uses, func(u codeUse) bool { return u.Name == v.query("scheme") }); i >= 0 {
		b.Chosen = b.Uses[i]
	}
	language := cmp.Or(v.query("code"), v.cookie("code"))
	i := max(0, slices.IndexFunc(b.Languages, func(l snippets.Language) bool { return l.Name == language }))
	b.Variable = snippets.Variable(b.Chosen.Use)
	b.Headers, b.Expires = snippets.Headers(b.Chosen.Use), snippets.Expires(b.Chosen.Use)
	if b = b.in(i); v.query("code") == b.Language {
		v.setCookie("code", b.Language, preferenceAge)
	}
	return b, nil
}

// in returns the block with the snippet in a language.
func (b codeBlock) in(language int) codeBlock {
	l := b.Languages[language]
	b.Language, b.Title, b.File = l.Name, l.Title, l.File
	b.Text, _ = snippets.Write(l.Name, b.Chosen.Use) // empty: there is none, and the page says so
	return b
}

// usesOf returns the ways to verify what an endpoint sends: by its schemes, and by its
// public key, if it has one, with the schemes that can use it.
func usesOf(e apitypes.Endpoint, public bool) []codeUse {
	var uses []codeUse
	for _, s := range e.Signature.Value().Schemes {
		format := signature.Format{Scheme: signature.Scheme(s.Scheme), Header: s.Header, Prefix: s.Prefix}
		if public && (s.Scheme == postrider.SchemeStandard || s.Scheme == postrider.SchemeSvix) {
			uses = append(uses, codeUse{string(s.Scheme) + ".public", snippets.Use{Format: format, PublicKey: true}})
		}
		uses = append(uses, codeUse{string(s.Scheme), snippets.Use{Format: format}})
	}
	if len(uses) == 0 { // the policy cannot be read
		uses = []codeUse{{"standard", snippets.Use{}}}
	}
	return uses
}

// showSnippets shows the code that verifies what the endpoint sends.
func showSnippets(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	code, err := v.codeOf(e, nil)
	if err != nil {
		return err
	}
	return v.show(page{Name: "endpoints-snippets", Title: where(v, e), Data: startPage{Endpoint: e, Tab: "snippets", Code: code}, Commands: []string{
		"endpoints secrets " + e.ID.String() + " --states", "verify --help",
	}})
}

// testsPage is the data of the page that sends test events of each type.
type testsPage struct {
	Endpoint apitypes.Endpoint
	Tab      string
	Types    []string
	Type     string             // that was sent last, to choose it again
	Delivery *apitypes.Delivery // of the test event; nil: none was sent yet
	Attempts []apitypes.Attempt // of the delivery, newest first
	Why      explained          // of the delivery, while it is pending
	Probe    bool               // the circuit holds it, and a probe can be sent earlier
	Fault    string
}

// testTypes returns the types that a test event for the endpoint may have: the standard
// one, and the types of the catalogue that the endpoint subscribed to.
func (v *visit) testTypes(e apitypes.Endpoint) ([]string, error) {
	catalogue, err := v.api.EventTypes(v.ctx, client.Paging{Limit: 250})
	if err != nil {
		return nil, err
	}
	types := []string{apitypes.TestType}
	for _, t := range catalogue.Data {
		if slices.ContainsFunc(e.EventTypes, func(p string) bool { return postrider.Pattern(p).Matches(t.Name) }) {
			types = append(types, t.Name)
		}
	}
	return types, nil
}

// showTests shows the types of test events, and what became of the last one.
func showTests(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	p := testsPage{Endpoint: e}
	if v.query("event") != "" {
		event, err := postrider.ParseID[postrider.EventID](v.query("event"))
		if err != nil {
			return errNoPage
		}
		if err := p.fill(v, event); err != nil {
			return err
		}
	}
	return v.showTests(p)
}

// fill adds what became of a test event.
func (p *testsPage) fill(v *visit, event postrider.EventID) error {
	found, err := v.api.Deliveries(v.ctx, client.DeliveryFilter{Event: event, Endpoint: p.Endpoint.ID, Paging: client.Paging{Limit: 1}})
	if err != nil || len(found.Data) == 0 {
		return cmp.Or(err, errNoPage)
	}
	p.Delivery, p.Type = &found.Data[0], found.Data[0].EventType
	if p.Delivery.Status == postrider.Pending {
		if err := p.explain(v); err != nil {
			return err
		}
	}
	attempts, err := v.api.Attempts(v.ctx, p.Delivery.ID, client.Paging{Limit: 20})
	p.Attempts = attempts.Data
	slices.SortFunc(p.Attempts, func(a, b apitypes.Attempt) int { return b.Attempt - a.Attempt })
	return err
}

// explain says why the test event was not delivered yet.
func (p *testsPage) explain(v *visit) error {
	d, err := v.api.Delivery(v.ctx, p.Delivery.ID)
	if err != nil {
		return err
	}
	if d.Waiting == nil || d.Waiting.Reason == postrider.WaitInFlight || d.Waiting.Reason == postrider.WaitDue { // it is on its way
		return nil
	}
	p.Why = v.explain(d, p.Endpoint)
	if d.Waiting.Reason != postrider.WaitCircuitOpen {
		return nil
	}
	of := endpointPage{Endpoint: p.Endpoint}
	of.Circuit, err = v.api.Circuit(v.ctx, p.Endpoint.ID)
	p.Probe = v.probeStage(&of) == probeLater
	return err
}

func (v *visit) showTests(p testsPage) error {
	var err error
	if p.Types, err = v.testTypes(p.Endpoint); err != nil {
		return err
	}
	p.Tab = "tests"
	show := page{Name: "endpoints-tests", Title: where(v, p.Endpoint), Data: p, Commands: []string{"endpoints test " + p.Endpoint.ID.String() + " --type TYPE"}}
	if p.Fault != "" {
		show.Status = 422
	}
	return v.show(show)
}

// sendTest sends a test event of the chosen type, and leads to the page with what became
// of it.
func sendTest(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	receipt, err := v.api.TestEndpoint(v.ctx, e.ID, apitypes.EndpointTest{Type: v.form("type")})
	if faults, refused := v.faulty(err); refused {
		return v.showTests(testsPage{Endpoint: e, Type: v.form("type"), Fault: anyFault(faults)})
	}
	if err != nil {
		return err
	}
	return v.redirect(v.path("endpoints", e.ID, "tests") + "?event=" + receipt.ID.String())
}
