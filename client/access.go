package client

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// CreatePortalSession makes a one-time link to the customer portal of an account.
// Call it when the customer clicks, because the link must be opened within 60 s.
func (c *Client) CreatePortalSession(ctx context.Context, s apitypes.PortalSessionCreate) (apitypes.PortalSession, error) {
	return post[apitypes.PortalSession](ctx, c, "/portal-sessions", s)
}

// SessionFilter selects sessions. A zero field selects all.
type SessionFilter struct {
	Kind    postrider.SessionKind
	Account string // id or uid
	Ended   bool   // true: also list sessions that have ended
	Paging
}

// Sessions lists sessions of operators and of the portal, newest first.
func (c *Client) Sessions(ctx context.Context, f SessionFilter) (apitypes.Page[apitypes.Session], error) {
	ended := ""
	if f.Ended {
		ended = strconv.FormatBool(true)
	}
	return get[apitypes.Page[apitypes.Session]](ctx, c,
		"/sessions"+query(f.Paging, "kind", string(f.Kind), "account", f.Account, "ended", ended))
}

// RevokeSession ends a session at once.
func (c *Client) RevokeSession(ctx context.Context, session postrider.SessionID) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/sessions/" + session.String()}, nil)
}

// AuditFilter selects audit entries. A zero field selects all.
type AuditFilter struct {
	Account  string // id or uid
	Key      postrider.KeyID
	Session  postrider.SessionID
	Action   string    // such as update-endpoint or login
	Object   string    // id or name
	From, To time.Time // at From or later, and before To
	Paging
}

// Audit lists the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (apitypes.Page[apitypes.AuditEntry], error) {
	return get[apitypes.Page[apitypes.AuditEntry]](ctx, c, "/audit"+query(f.Paging, "account", f.Account, "key", idText(f.Key),
		"session", idText(f.Session), "action", f.Action, "object", f.Object, "from", instant(f.From), "to", instant(f.To)))
}

// Portal returns the settings of the customer portal.
func (c *Client) Portal(ctx context.Context) (apitypes.Portal, error) {
	return get[apitypes.Portal](ctx, c, "/portal")
}

// SetPortal replaces the settings of the customer portal, except the logo.
func (c *Client) SetPortal(ctx context.Context, p apitypes.PortalUpdate) (apitypes.Portal, error) {
	return put[apitypes.Portal](ctx, c, "/portal", p)
}

// PortalLogo returns the logo of the customer portal. Without a logo, the error
// matches [postrider.ErrNotFound].
func (c *Client) PortalLogo(ctx context.Context) (apitypes.Logo, error) {
	return get[apitypes.Logo](ctx, c, "/portal/logo")
}

// SetPortalLogo replaces the logo of the customer portal with a PNG. The logo in the response has
// the same pixels but other bytes, because the server encodes it again.
func (c *Client) SetPortalLogo(ctx context.Context, png []byte) (apitypes.Logo, error) {
	return put[apitypes.Logo](ctx, c, "/portal/logo", apitypes.LogoUpdate{PNG: base64.StdEncoding.EncodeToString(png)})
}

// DeletePortalLogo removes the logo of the customer portal.
func (c *Client) DeletePortalLogo(ctx context.Context) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/portal/logo"}, nil)
}

func put[T any](ctx context.Context, c *Client, path string, in any) (T, error) {
	var out T
	err := c.call(ctx, request{method: http.MethodPut, path: path, in: in}, &out)
	return out, err
}
