package web_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// An event shows the endpoints that it names and its media type. Its page and the download have the bytes,
// not the string that the API has.
func TestAnEventShowsItsEndpointsAndOtherData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	event, err := w.admin.Publish(t.Context(), apitypes.EventCreate{
		Account: w.account.ID.String(), Type: "order.paid", Data: []byte(`"iVBORw=="`), DataEncoding: postrider.Base64,
		About: apitypes.About{ContentType: "image/png"}, Endpoints: []string{e.ID.String()},
	})
	if err != nil {
		t.Fatal(err)
	}
	for person, base := range map[string]string{"customer": "/portal", "operator": "/dashboard"} {
		path := base + "/events/" + event.ID.String()
		says(t, w.see(person, path), "Only to", `href="`+base+"/endpoints/"+e.ID.String()+`"`, "image/png", "PNG")
		got := w.as(person, "GET "+path+"/data", nil)
		if name := event.ID.String() + ".bin"; got.html != "\x89PNG" || !strings.Contains(got.header.Get("Content-Disposition"), name) {
			t.Errorf("the download of %s is %q, want %s", got.header.Get("Content-Disposition"), got.html, name)
		}
	}
}
