// Package metadata finds the one record that carries an integrator's id, for the
// Ensure methods.
package metadata

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// query narrows the metadata list to one id.
type query struct {
	ID   string `url:"id"`
	Type string `url:"type"`
}

// entry is a record as the metadata list holds it.
type entry struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// Find returns the record of a kind that carries id, or nil. Several are an
// [*api.EnsureError] of the operation that would create one more.
func Find[T any](ctx context.Context, t *transport.Client, create *operation.Operation, kind, id string, options []api.RequestOption) (*T, error) {
	var found []entry
	call := transport.Call{Operation: operation.MetadataList, Query: query{ID: id, Type: kind}, Options: options}
	for e, err := range transport.All[entry](ctx, t, call, api.Paging{}) {
		if err != nil {
			return nil, err
		}
		// The filter is the platform's; what it lets through is checked.
		if e.ID == id && e.Type == kind {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		if _, err := idOf(found[0]); err != nil {
			return nil, err
		}
		return decode[T](found[0])
	}
	ambiguous := &api.EnsureError{Operation: create.Name, Reason: api.EnsureReasonAmbiguous}
	for _, e := range found {
		id, err := idOf(e)
		if err != nil {
			return nil, err
		}
		ambiguous.IDs = append(ambiguous.IDs, id)
	}
	return nil, ambiguous
}

// idOf returns the platform's id of a record. Data without one is no record: it is null, or
// has the record somewhere else.
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
