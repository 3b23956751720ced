// Package start guides a person from a new endpoint to a verified event: with its secret, the
// code that verifies, and the requests that an inspector endpoint got.
package start

import (
	"cmp"
	"embed"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/snippets"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/signature"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages that guide a person from a new endpoint to a verified event.
func Feature() page.Feature {
	return page.Feature{
		Templates: templates,
		Everyone: page.Routes{
			"GET /endpoints/{endpoint}/start":              page.OfEndpoint(showStart),
			"POST /endpoints/{endpoint}/start":             page.OfEndpoint(revealStart),
			"GET /endpoints/{endpoint}/snippets":           page.OfEndpoint(showSnippets),
			"GET /endpoints/{endpoint}/requests":           listInspections,
			"GET /endpoints/{endpoint}/requests/{request}": showInspection,
		},
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
func showStart(v *page.Visit, e apitypes.Endpoint) error {
	return startPage{Endpoint: e, New: v.Query("created") != ""}.show(v)
}

// revealStart shows the next steps with the newest secret, in response to a form. A GET of the
// same URL shows the page without the secret.
func revealStart(v *page.Visit, e apitypes.Endpoint) error {
	states, err := v.API.SecretStates(v.Context, e.ID)
	if err != nil {
		return err
	}
	var secrets []apitypes.Secret
	if len(states) > 0 {
		newest, err := v.API.RevealSecret(v.Context, e.ID, states[0].ID)
		if err != nil {
			return err
		}
		secrets = append(secrets, newest)
	}
	return startPage{Endpoint: e, Secrets: secrets}.show(v)
}

// Created redirects to the next steps of a new endpoint. That page shows the message said, can be
// reloaded, and reveals the secret there. A person without the scope to read secrets gets the page at once, because
// only the response to the creation has the secret.
func Created(v *page.Visit, e apitypes.Endpoint, said page.Flash) error {
	if !v.Can(postrider.ScopeSecretsRead) {
		v.Say(said)
		return startPage{Endpoint: e, Secrets: e.Secrets, New: true, Once: true}.show(v)
	}
	return v.Done(v.Path("endpoints", e.ID, "start")+"?created=yes", said)
}

func (p startPage) show(v *page.Visit) error {
	var err error
	if p.Code, err = codeOf(v, p.Endpoint, p.Secrets); err != nil {
		return err
	}
	p.Code.Path = v.Path("endpoints", p.Endpoint.ID, "start")
	if len(p.Secrets) > 0 {
		for i := range p.Code.Languages {
			p.Codes = append(p.Codes, p.Code.in(i))
		}
	}
	if p.Types, err = page.TestTypes(v, p.Endpoint); err != nil {
		return err
	}
	id := p.Endpoint.ID.String()
	return v.Show(page.View{Name: "endpoints-start", Title: v.T("endpoints-start.title"), Data: p, Commands: []string{
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

// codeUse is a way to verify a webhook: a scheme, with the public key if the scheme uses ed25519.
type codeUse struct {
	Name string // in URLs
	Use  snippets.Use
}

// codeOf returns the snippet for an endpoint. The URL chooses language and scheme; a cookie keeps
// the language.
func codeOf(v *page.Visit, e apitypes.Endpoint, secrets []apitypes.Secret) (codeBlock, error) {
	b := codeBlock{Path: v.Path("endpoints", e.ID, "snippets"), Languages: snippets.Languages()}
	public := slices.ContainsFunc(secrets, func(s apitypes.Secret) bool { return s.PublicKey != nil })
	if len(secrets) == 0 {
		keys, err := v.API.PublicKeys(v.Context, e.ID, client.Paging{Limit: 1})
		if err != nil && page.StatusOf(err) != 404 {
			return b, err
		}
		public = len(keys.Data) > 0
	}
	b.Uses = usesOf(e, public)
	b.Chosen = b.Uses[0]
	if i := slices.IndexFunc(b.Uses, func(u codeUse) bool { return u.Name == v.Query("scheme") }); i >= 0 {
		b.Chosen = b.Uses[i]
	}
	language := cmp.Or(v.Query("code"), v.Cookie("code"))
	i := max(0, slices.IndexFunc(b.Languages, func(l snippets.Language) bool { return l.Name == language }))
	b.Variable = snippets.Variable(b.Chosen.Use)
	b.Headers, b.Expires = snippets.Headers(b.Chosen.Use), snippets.Expires(b.Chosen.Use)
	if b = b.in(i); v.Query("code") == b.Language {
		v.SetCookie("code", b.Language, page.PreferenceAge)
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

// usesOf returns the ways to verify requests of an endpoint: by its schemes, and, if it has a
// public key, by the key with the schemes that can use it.
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
func showSnippets(v *page.Visit, e apitypes.Endpoint) error {
	code, err := codeOf(v, e, nil)
	if err != nil {
		return err
	}
	return v.Show(page.View{
		Name: "endpoints-snippets", Title: page.Where(v, e), Data: startPage{Endpoint: e, Tab: "snippets", Code: code},
		Commands: []string{
			"endpoints secrets " + e.ID.String() + " --states", "verify --help",
		},
	})
}
