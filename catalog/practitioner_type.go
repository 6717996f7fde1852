package catalog

import (
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// PractitionerType is a profession. You need its ID to create a practitioner.
// API section: "Practitioner type".
type PractitionerType struct {
	ID string `json:"id"`

	// Code is a short code, for example ND. Description explains it.
	Code        string `json:"code"`
	Description string `json:"description"`
}

// PractitionerTypes calls the practitioner type endpoint. Get it from [Service].
type PractitionerTypes struct{ t *transport.Client }

// List returns all practitioner types.
// API section: GET /catalog/practitioner_types.
func (s PractitionerTypes) List(options ...api.RequestOption) *api.List[PractitionerType] {
	return transport.NewList[PractitionerType](s.t, transport.Call{Operation: operation.PractitionerTypeList, Options: options})
}
