package secrets

import (
	"context"
	"net/http"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// wellKnownKeys is the path of the public keys that verify v1a signatures. Receivers read it
// without an API key, so it is not in the OpenAPI document.
const wellKnownKeys = "/.well-known/webhook-keys"

// registerPublicKeys registers the route of the public keys.
func (s *Routes) registerPublicKeys(rt *rest.Router) {
	rt.HandlePublic("GET "+wellKnownKeys, func(ctx context.Context, r *http.Request) (any, error) { return s.publicKeys(ctx, r) })
}

// publicKeys returns the page of public keys that the query parameters select.
func (s *Routes) publicKeys(ctx context.Context, r *http.Request) (apitypes.PublicKeys, error) {
	query, err := publicKeyQuery(r)
	if err != nil {
		return apitypes.PublicKeys{}, err
	}
	page, err := s.Store.PublicKeys(ctx, query)
	if err != nil {
		return apitypes.PublicKeys{}, err
	}
	view := apitypes.PublicKeys{Keys: []apitypes.PublicKey{}, NextCursor: render.OrNull(page.Next)}
	for _, secret := range page.Items {
		view.Keys = append(view.Keys, apitypes.PublicKey{
			ID: secret.ID, PublicKey: secret.Public,
			CreatedAt: render.Instant(secret.CreatedAt), ExpiresAt: render.TimeOrNull(secret.ExpiresAt),
		})
	}
	return view, nil
}

// publicKeyQuery parses the query parameters. Like huma on the other routes, it refuses an unknown
// parameter.
func publicKeyQuery(r *http.Request) (q store.PublicKeyQuery, err error) {
	if err := rest.CheckURL(r.URL); err != nil {
		return q, err
	}
	for name, values := range r.URL.Query() {
		switch text := values[0]; name {
		case "endpoint":
			if q.Endpoint, err = rest.Filtered[postrider.EndpointID]("endpoint", text); err != nil {
				return q, err
			}
		case "cursor":
			q.Cursor = text
		case "limit":
			if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > store.MaxLimit {
				return q, postrider.OutOfRange("limit", 1, store.MaxLimit)
			}
		default:
			return q, rest.Invalid(name, postrider.FaultUnknown, "unknown query parameter")
		}
	}
	return q, nil
}
