// Package resource contains what the lists of several resources share: a record is found by the id that
// the integrator assigned, and by time.
package resource

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// query filters the metadata list by one id.
type query struct {
	ID   string `url:"id"`
	Type string `url:"type"`
}

// entry is a record in the metadata list.
type entry struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// The kinds of records with metadata.
const (
	Patient       = "patient"
	Practitioner  = "practitioner"
	Staff         = "staff"
	TreatmentPlan = "treatment_plan"
)

// Get returns the record of a kind with an id. If there is none, the error is an [*api.Error]
// and matches [api.ErrNotFound]. If there are several, it is an [*api.EnsureError].
func Get[T any](ctx context.Context, t *transport.Client, kind, id string, options []api.RequestOption) (*T, error) {
	record, last, err := find[T](ctx, t, operation.MetadataList, kind, id, options)
	if record != nil || err != nil {
		return record, err
	}
	op := operation.MetadataList
	return nil, apikit.NewError(api.Error{
		Operation: op.Name, Method: op.Method, Route: op.Route,
		StatusCode: last.StatusCode, RequestID: last.RequestID, Attempts: last.Attempts,
	}, missing{}, nil, nil)
}

// missing is the cause of the error if no record has the id.
type missing struct{}

func (missing) Error() string        { return "no record has the metadata id" }
func (missing) Is(target error) bool { return target == api.ErrNotFound }

// Find returns the record of a kind with an id, or nil if there is none. If there are several,
// the error is an [*api.EnsureError] of the create operation.
func Find[T any](ctx context.Context, t *transport.Client, create *operation.Operation, kind, id string, options []api.RequestOption) (*T, error) {
	record, _, err := find[T](ctx, t, create, kind, id, options)
	return record, err
}

// find returns the record of a kind with an id, or nil if there is none. last is the last
// response.
func find[T any](ctx context.Context, t *transport.Client, op *operation.Operation, kind, id string, options []api.RequestOption) (record *T, last api.Response, err error) {
	var found []entry
	call := transport.Call{Operation: operation.MetadataList, Query: query{ID: id, Type: kind}, Blank: transport.Blank("id", id), Options: options}
	for page, err := range transport.Pages[entry](ctx, t, call) {
		if err != nil {
			return nil, last, err
		}
		last = page.Response
		for _, e := range page.Items {
			// The platform may ignore the filter.
			if e.ID == id && e.Type == kind {
				found = append(found, e)
			}
		}
	}
	if len(found) == 0 {
		return nil, last, nil
	}
	ambiguous := &api.EnsureError{Operation: op.Name, Reason: api.EnsureReasonAmbiguous}
	for _, e := range found {
		id, err := idOf(e)
		if err != nil {
			return nil, last, err
		}
		ambiguous.IDs = append(ambiguous.IDs, id)
	}
	if len(found) > 1 {
		return nil, last, ambiguous
	}
	record, err = decode[T](found[0])
	return record, last, err
}

// idOf returns the platform's id of a record. Data without an id is not a record: it is null
// or contains the record at another place.
func idOf(e entry) (string, error) {
	record, err := decode[struct {
		ID string `json:"id"`
	}](e)
	switch {
	case err != nil:
		return "", err
	case record.ID == "":
		return "", fmt.Errorf("%w: the data of a metadata entry has no id", api.ErrBadResponse)
	}
	return record.ID, nil
}

func decode[T any](e entry) (*T, error) {
	record := new(T)
	if _, err := jsondecode.Unmarshal(e.Data, record); err != nil {
		return nil, fmt.Errorf("%w: the data of a metadata entry does not fit %T", api.ErrBadResponse, record)
	}
	return record, nil
}
