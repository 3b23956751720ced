package web

import (
	"net/http"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// portalLink is the panel with which an operator opens the portal of an account, as its
// customer sees it.
type portalLink struct {
	May    []linkCapability       // that the operator can give
	Made   apitypes.PortalSession // zero: none was made
	Fault  string                 // why none was made; empty: nothing was refused
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

// portalLink returns the panel for an account, with the capabilities that the person has
// and, in the response to the form, those that were chosen.
func (v *visit) portalLink(account apitypes.Account) portalLink {
	l := portalLink{Action: v.path("accounts", account.ID, "portal-link")}
	for _, c := range capabilityScopes {
		if v.can(c.scope) {
			chosen := v.r.Method == http.MethodPost && slices.Contains(v.posted["capability"], string(c.capability))
			l.May = append(l.May, linkCapability{c.capability, chosen})
		}
	}
	return l
}

// makePortalLink makes a one-time link to the portal of an account, and shows it on the
// page of the account. It is in no URL and in no cookie.
func makePortalLink(v *visit) error {
	a, err := v.api.Account(v.ctx, v.r.PathValue("account"))
	if err != nil {
		return err
	}
	wanted := []apitypes.Capability{apitypes.CapabilityView}
	l := v.portalLink(a)
	for _, c := range l.May {
		if c.Checked {
			wanted = append(wanted, c.Name)
		}
	}
	l.Made, err = v.api.CreatePortalSession(v.ctx, apitypes.PortalSessionCreate{
		Account: a.ID.String(), Name: v.session.Caller.Name, Capabilities: wanted, Locale: v.text.Language,
	})
	faults, refused := v.faulty(err)
	if err != nil && !refused {
		return err
	}
	l.Fault = anyFault(faults)
	return v.showAccountWith(a, formOf(a), l)
}
