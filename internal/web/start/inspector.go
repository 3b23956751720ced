package start

import (
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/payload"
)

// inspectionsPage is the data of the list of requests.
type inspectionsPage struct {
	page.List[apitypes.Inspection]

	Endpoint apitypes.Endpoint
	Tab      string
	Types    []string // that a test event may have
}

// listInspections shows the requests that an inspector endpoint got, newest first.
func listInspections(v *page.Visit) error {
	e, err := v.Endpoint()
	if err != nil {
		return err
	}
	found, err := v.API.Inspections(v.Context, e.ID, v.Paging())
	if err != nil {
		return err
	}
	p := inspectionsPage{List: page.ListOf(v, found, nil), Endpoint: e, Tab: "requests"}
	if p.Types, err = page.TestTypes(v, e); err != nil {
		return err
	}
	return v.Show(page.View{Name: "endpoints-requests", Title: page.Where(v, e), Data: p, Commands: []string{
		"endpoints requests " + e.ID.String(),
	}})
}

// inspectionPage is the data of one request.
type inspectionPage struct {
	Endpoint apitypes.Endpoint
	Tab      string
	Request  apitypes.Inspection
	Body     payload.Payload
	Text     bool // the body is text
	Code     codeBlock
	Curl     string // sends the request to a receiver on the person's machine; empty: the body is no text, or too large
}

// showInspection shows one request in the form that a receiver gets, whether its signature
// verifies, and the code that verifies it.
func showInspection(v *page.Visit) error {
	e, err := v.Endpoint()
	if err != nil {
		return err
	}
	id, err := page.PathID[postrider.InspectionID](v, "request")
	if err != nil {
		return err
	}
	p := inspectionPage{Endpoint: e, Tab: "requests"}
	if p.Request, err = v.API.Inspection(v.Context, e.ID, id); err != nil {
		return err
	}
	if p.Code, err = codeOf(v, e, nil); err != nil {
		return err
	}
	p.Code.Path = v.Path("endpoints", e.ID, "requests", id)
	if p.Request.Body != nil || p.Request.BodyRaw == nil {
		text := ""
		if p.Request.Body != nil {
			text = *p.Request.Body
		}
		p.Text, p.Body, p.Curl = true, payload.New([]byte(text), "", false), curlOf(p.Request, text)
	}
	return v.Show(page.View{Name: "endpoints-request", Title: v.T("endpoints-request.title"), Data: p, Commands: []string{
		"endpoints request " + e.ID.String() + " " + id.String(),
	}})
}

// maxCurl is the largest body of a command to copy, in bytes. Shells limit the length of a line.
const maxCurl = 32 << 10

// curlOf returns the command that sends a request to a receiver on the person's own machine,
// which needs no public URL. The signature is genuine. Schemes that sign the time refuse the
// request after five minutes.
func curlOf(r apitypes.Inspection, body string) string {
	if len(body) > maxCurl || len(body) != r.BodyBytes {
		return ""
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	var b strings.Builder
	b.WriteString("curl -i http://localhost:3000/webhooks")
	for _, h := range r.Headers {
		switch strings.ToLower(h.Name) {
		case "host", "content-length", "content-encoding", "accept-encoding", "connection": // curl's own; the body is not compressed
		default:
			if !h.Masked {
				b.WriteString(" \\\n  -H " + quote(h.Name+": "+h.Value))
			}
		}
	}
	b.WriteString(" \\\n  --data-binary " + quote(body))
	return b.String()
}
