package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/postrider/postrider"
)

// Inspections keeps the requests that inspector endpoints received.
type Inspections interface {
	// PutInspection stores a request. It keeps the newest [postrider.InspectionsKept] requests of
	// the endpoint and deletes the older ones. Repeated with the same id, it stores nothing more.
	PutInspection(ctx context.Context, i postrider.Inspection) error

	// Inspections lists the requests that an endpoint received within the last
	// [postrider.InspectionKeptFor], newest first. Only a request found by ID has its Body.
	Inspections(ctx context.Context, q InspectionQuery) (Page[postrider.Inspection], error)

	// ForgetInspections deletes up to limit requests that are older than InspectionKeptFor, of all
	// endpoints. It returns the number of deleted requests.
	ForgetInspections(ctx context.Context, limit int) (int, error)
}

// InspectionQuery asks for the requests of one endpoint; a zero ID does not filter.
type InspectionQuery struct {
	Endpoint postrider.EndpointID
	ID       postrider.InspectionID
	Paging
}

// inspectionDocument is the stored form of an inspection's header and verdicts.
type inspectionDocument struct {
	Header   []postrider.HeaderField `json:"header"`
	Verdicts []postrider.Verdict     `json:"verdicts"`
}

// EncodeInspection returns the header and the verdicts of an inspection as a document.
func EncodeInspection(i postrider.Inspection) ([]byte, error) {
	document, err := json.Marshal(inspectionDocument{i.Header, i.Verdicts})
	if err != nil {
		return nil, fmt.Errorf("encode inspection %s: %w", i.ID, err)
	}
	return document, nil
}

// SetInspection sets the header and the verdicts of i from the document, and its time from its
// id.
func SetInspection(i *postrider.Inspection, document []byte) error {
	var d inspectionDocument
	if err := json.Unmarshal(document, &d); err != nil {
		return fmt.Errorf("decode inspection %s: %w", i.ID, err)
	}
	i.At, i.Header, i.Verdicts = i.ID.Time(), d.Header, d.Verdicts
	return nil
}
