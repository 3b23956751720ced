// Package portal is the part of the API that serves the settings of the customer portal. A logo is
// decoded and encoded again, so that a browser gets only its pixels.
package portal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"image/png"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/shape"
	"github.com/postrider/postrider/internal/store"
)

// Routes serves the settings of the customer portal.
type Routes struct{ Store store.PortalSettings }

// Register registers the routes of the portal's settings. Every caller that may see a page may read
// the settings.
func (s *Routes) Register(rt *rest.Router) {
	admin, read := postrider.ScopeAdmin, postrider.ScopeWebhooksRead
	rest.Handle(rt, rest.Route{
		Name: "get-portal", Path: "GET /portal",
		Summary: "Get the settings of the customer portal",
		Scope:   read,
	}, s.getPortal)
	rest.HandleBody(rt, rest.Route{
		Name: "set-portal", Path: "PUT /portal",
		Summary:     "Replace the settings of the customer portal",
		Description: "A field that is left out gets its default. The logo stays. Options apply to links that are made afterwards.",
		Scope:       admin,
	}, s.setPortal)
	rest.Handle(rt, rest.Route{
		Name: "get-portal-logo", Path: "GET /portal/logo",
		Summary: "Get the logo of the customer portal",
		Codes:   []string{"not_found"},
		Scope:   read,
	}, s.getLogo)
	rest.HandleBody(rt, rest.Route{
		Name: "set-portal-logo", Path: "PUT /portal/logo",
		Summary: "Replace the logo of the customer portal",
		Scope:   admin,
	}, s.setLogo)
	rest.Handle(rt, rest.Route{
		Name: "delete-portal-logo", Path: "DELETE /portal/logo",
		Summary: "Delete the logo of the customer portal",
		Scope:   admin, Status: 204,
	}, s.deleteLogo)
}

const (
	// The limits of the portal's settings.
	maxPortalName   = 64
	maxFrameOrigins = 16
	maxLogo         = 64 << 10 // bytes
	maxLogoSide     = 512      // pixels
	// minContrast is the smallest contrast that text may have (WCAG 2.2, 1.4.3).
	minContrast = 4.5
)

// viewPortal returns the settings in the form of a response.
func viewPortal(p postrider.Portal) apitypes.Portal {
	view := apitypes.Portal{
		Name: p.Name, Colour: render.OrNull(p.Colour), FrameOrigins: append([]string{}, p.FrameOrigins...),
		Options: p.SessionOptions(), UpdatedAt: render.TimeOrNull(p.UpdatedAt),
	}
	if p.Logo != [32]byte{} {
		view.Logo = new(hex.EncodeToString(p.Logo[:]))
	}
	return view
}

func (s *Routes) getPortal(ctx context.Context, _ *rest.None) (*rest.Reply[apitypes.Portal], error) {
	return rest.RespondWith(viewPortal)(s.Store.Portal(ctx))
}

// setPortal replaces the settings. It reports all faults together.
func (s *Routes) setPortal(ctx context.Context, _ *rest.None, body apitypes.PortalUpdate) (*rest.Reply[apitypes.Portal], error) {
	p := postrider.Portal{Name: body.Name, Colour: strings.ToLower(body.Colour)}
	faults := []error{rest.CheckText("name", body.Name, maxPortalName), checkColour(p.Colour)}
	if len(body.FrameOrigins) > maxFrameOrigins {
		faults = append(faults, rest.WrongCount("frame_origins", 0, maxFrameOrigins, "origins"))
	}
	for i, origin := range body.FrameOrigins {
		if !isOrigin(origin) {
			faults = append(faults, rest.Invalid(fmt.Sprintf("frame_origins[%d]", i), postrider.FaultMalformed,
				"must be an https origin in lower case without a path, like https://app.example"))
		}
		p.FrameOrigins = append(p.FrameOrigins, origin)
	}
	if options, given := body.Options.Get(); given {
		p.Options = append([]string{}, options...)
		faults = append(faults, checkOptions(options))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	was, err := s.Store.Portal(ctx)
	if err != nil {
		return nil, err
	}
	p.Logo = was.Logo // PutPortal does not change the logo
	rest.InfoOf(ctx).Changed(viewPortal(was), viewPortal(p))
	if err := s.Store.PutPortal(ctx, p); err != nil {
		return nil, err
	}
	return rest.RespondWith(viewPortal)(s.Store.Portal(ctx))
}

// isOrigin reports whether the text is an https origin as browsers write it: a host, optionally
// with a port. The origin becomes part of the Content-Security-Policy, where a wildcard or a space
// would have a meaning.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || "https://"+u.Host != text || u.Port() == "443" ||
		strings.HasSuffix(u.Host, ":") {
		return false
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune(".-:[]", r)
	}
	return !strings.ContainsFunc(u.Host, strange)
}

// checkOptions refuses names that are not policy options, and repeated names.
func checkOptions(names []string) error {
	var faults []error
	for i, name := range names {
		known := false
		for option := range shape.Options(&apitypes.Policy{}, reflect.TypeFor[postrider.Policy]()) {
			known = known || option.Name == name
		}
		if !known || slices.Contains(names[:i], name) {
			faults = append(faults, rest.Invalid(fmt.Sprintf("options[%d]", i), postrider.FaultNotAChoice,
				"must be the name of an option of an endpoint, once"))
		}
	}
	return errors.Join(faults...)
}

// checkColour refuses a text that is not #rrggbb, and a colour on which white text is hard to read.
// Pages write white text on the accent colour, and text of that colour on white, which has the same
// contrast. Dark pages lighten the accent colour.
func checkColour(colour string) error {
	if colour == "" {
		return nil
	}
	c, ok := postrider.ParseColour(colour)
	if !ok {
		return rest.Invalid("colour", postrider.FaultMalformed, "must be #rrggbb")
	}
	if contrast := c.Contrast(postrider.Colour{1, 1, 1}); contrast < minContrast {
		return rest.Invalid("colour", postrider.FaultMalformed,
			fmt.Sprintf("must have a contrast of at least %.1f with white text; it has %.1f, so choose a darker one", minContrast,
				math.Floor(contrast*10)/10))
	}
	return nil
}

// viewLogo returns the logo in the form of a response.
func viewLogo(image []byte) apitypes.Logo {
	sum := sha256.Sum256(image)
	return apitypes.Logo{PNG: image, SHA256: hex.EncodeToString(sum[:])}
}

func (s *Routes) getLogo(ctx context.Context, _ *rest.None) (*rest.Reply[apitypes.Logo], error) {
	return rest.RespondWith(viewLogo)(s.Store.Logo(ctx))
}

// setLogo replaces the logo.
func (s *Routes) setLogo(ctx context.Context, _ *rest.None, body apitypes.LogoUpdate) (*rest.Reply[apitypes.Logo], error) {
	file, err := base64.StdEncoding.DecodeString(body.PNG)
	if err != nil {
		return nil, rest.Invalid("png", postrider.FaultMalformed, "must be base64")
	}
	image, err := cleanPNG(file)
	if err != nil {
		return nil, err
	}
	if err := s.Store.PutLogo(ctx, image); err != nil {
		return nil, err
	}
	return rest.Respond(viewLogo(image)), nil
}

// cleanPNG decodes a PNG and encodes its pixels again, so that a browser gets only pixels. It
// checks the dimensions before it decodes, because a small file can declare billions of pixels.
func cleanPNG(file []byte) ([]byte, error) {
	if len(file) > maxLogo {
		return nil, rest.TooLong("png", maxLogo, fmt.Sprintf("must be at most %d bytes", maxLogo))
	}
	size, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, rest.Invalid("png", postrider.FaultMalformed, "must be a PNG")
	}
	if size.Width > maxLogoSide || size.Height > maxLogoSide {
		return nil, rest.Invalid("png", postrider.FaultMalformed, fmt.Sprintf("must be at most %d by %d pixels", maxLogoSide, maxLogoSide))
	}
	image, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, rest.Invalid("png", postrider.FaultMalformed, "must be a PNG")
	}
	var clean bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&clean, image); err != nil {
		return nil, fmt.Errorf("encode logo: %w", err)
	}
	if clean.Len() > maxLogo {
		return nil, rest.TooLong("png", maxLogo, fmt.Sprintf("must be at most %d bytes after it is encoded again", maxLogo))
	}
	return clean.Bytes(), nil
}

// deleteLogo removes the logo. It also succeeds if there is no logo.
func (s *Routes) deleteLogo(ctx context.Context, _ *rest.None) (*rest.None, error) {
	return nil, s.Store.PutLogo(ctx, nil)
}
