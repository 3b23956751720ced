package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// inspectionTable shows the requests that an inspector endpoint got.
var inspectionTable = tableOf[apitypes.Inspection]{
	[]string{"ID", "AT", "EVENT TYPE", "ATTEMPT", "BYTES", "VERIFIES"},
	func(i apitypes.Inspection) []string {
		return []string{
			i.ID.String(), moment(&i.At), i.EventType, strconv.Itoa(i.Attempt), strconv.Itoa(i.BodyBytes), verdictsText(i.Verdicts),
		}
	},
}

// verdictsText returns the schemes, and for each that does not verify the reason: "standard, slack:
// mismatch".
func verdictsText(verdicts []apitypes.Verdict) string {
	var texts []string
	for _, v := range verdicts {
		text := string(v.Scheme)
		if !v.Valid {
			text += ": " + optional(v.Reason)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

type endpointsRequestsCmd struct {
	oneEndpoint
	paging `embed:""`
}

// Run lists the requests.
func (c *endpointsRequestsCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, inspectionTable.page, func(api *client.Client) (apitypes.Page[apitypes.Inspection], error) {
		return api.Inspections(ctx, c.ID, c.page())
	})
}

type endpointsRequestCmd struct {
	oneEndpoint

	Request postrider.InspectionID `arg:"" help:"The request's id, ins_…"`
}

// Run shows the request.
func (c *endpointsRequestCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printInspection, func(api *client.Client) (apitypes.Inspection, error) {
		return api.Inspection(ctx, c.ID, c.Request)
	})
}

// printInspection prints a request as HTTP writes it, and whether it verifies.
func printInspection(t terminal, asJSON bool, i apitypes.Inspection) error {
	if asJSON {
		return printJSON(t.out, i)
	}
	var b strings.Builder
	for _, h := range i.Headers {
		fmt.Fprintf(&b, "%s: %s\n", h.Name, h.Value)
	}
	body := optional(i.Body)
	if i.Body == nil {
		body = string(i.BodyRaw)
	}
	fmt.Fprintf(&b, "\n%s\n\n", body)
	for _, v := range i.Verdicts {
		if v.Valid {
			fmt.Fprintf(&b, "%s verifies, with secret %s\n", v.Scheme, v.Secret)
		} else {
			fmt.Fprintf(&b, "%s does not verify: %s\n", v.Scheme, optional(v.Reason))
		}
	}
	_, err := t.out.Write([]byte(b.String()))
	return err
}
