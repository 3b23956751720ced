package rest

import (
	"context"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
)

// metadataPrefix begins the names of the query parameters that filter by metadata. The rest of the
// name is the key.
const metadataPrefix = "metadata."

// metadataParameter returns the parameter for the document of a list that can be filtered by metadata.
// Its name stands for any key.
func metadataParameter() *huma.Param {
	return &huma.Param{
		Name: metadataPrefix + "KEY", In: "query", Schema: &huma.Schema{Type: huma.TypeString},
		Description: "Only those whose metadata has the key KEY with exactly this value: metadata.plan=gold. There may be several, " +
			"for different keys; all must match. A deleted object is not found by its metadata.",
	}
}

// MetadataFilter returns the metadata that the query of the request asks for. Metadata that no object
// can have is refused: an empty list would look like "nothing found".
func MetadataFilter(ctx context.Context) (postrider.Metadata, error) {
	var m postrider.Metadata
	for name, values := range InfoOf(ctx).request.URL.Query() { // CheckURL has checked it
		key, ok := strings.CutPrefix(name, metadataPrefix)
		if !ok {
			continue
		}
		if m == nil {
			m = postrider.Metadata{}
		}
		m[key] = values[0]
	}
	return m, m.Check("metadata")
}

// humaContext is [huma.Context] with another name, because the interface has a method Context.
type humaContext huma.Context

// unfiltered is a request without the parameters that filter by metadata. Huma does not know their
// names, so it would refuse them.
type unfiltered struct {
	humaContext

	url url.URL
}

// URL returns the URL without these parameters.
func (u unfiltered) URL() url.URL { return u.url }

func withoutMetadata(ctx huma.Context) huma.Context {
	u := ctx.URL()
	query := u.Query()
	for name := range query {
		if strings.HasPrefix(name, metadataPrefix) {
			query.Del(name)
		}
	}
	u.RawQuery = query.Encode()
	return unfiltered{ctx, u}
}
