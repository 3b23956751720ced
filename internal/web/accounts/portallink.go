package accounts

import (
	"net/http"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
)

// portalLink is the panel with which an operator opens the portal of an account.
type portalLink struct {
	May    []linkCapability       // capabilities that the operator may give
	Made   apitypes.PortalSession // the link that was made; zero: none
	Fault  string                 // why no link was made; empty: nothing was refused
	Action string                 // path of the form
}

// linkCapability is a capability to choose. Its label is the text portal_link.NAME.
type linkCapability struct {
	Name    apitypes.Capability
	Checked bool
}

// capabilityScopes has the scope that each capability needs. Every session may view.
var capabilityScopes = []struct {
	capability apitypes.Capability
	scope      postrider.Scope
}{
	{apitypes.CapabilityOperate, postrider.ScopeWebhooksOperate},
	{apitypes.CapabilityEdit, postrider.ScopeEndpointsWrite},
	{apitypes.CapabilitySecrets, postrider.ScopeSecretsRead},
}

// portalLinkOf returns the panel for an account, with the capabilities of the person. In the
// response to the form, it also has the chosen capabilities.
func portalLinkOf(v *page.Visit, account apitypes.Account) portalLink {
	l := portalLink{Action: v.Path("accounts", account.ID, "portal-link")}
	for _, c := range capabilityScopes {
		if v.Can(c.scope) {
			chosen := v.Request.Method == http.MethodPost && slices.Contains(v.Posted["capability"], string(c.capability))
			l.May = append(l.May, linkCapability{c.capability, chosen})
		}
	}
	return l
}

// makePortalLink makes a one-time link to the portal of an account, and shows the link on the
// page of the account. The link is never in a URL or a cookie of this page.
func makePortalLink(v *page.Visit, a apitypes.Account) error {
	wanted := []apitypes.Capability{apitypes.CapabilityView}
	form := formOf(v, a)
	for _, c := range form.link.May {
		if c.Checked {
			wanted = append(wanted, c.Name)
		}
	}
	made, err := v.API.CreatePortalSession(v.Context, apitypes.PortalSessionCreate{
		Account: a.ID.String(), Name: v.Caller.Name, Capabilities: wanted, Locale: v.Text.Language,
	})
	faults := v.Faulty(err)
	if err != nil && faults == nil {
		return err
	}
	form.link.Made, form.link.Fault = made, page.AnyFault(faults)
	return form.show(v, a)
}
