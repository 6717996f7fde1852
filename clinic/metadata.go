package clinic

import "encoding/json"

// Metadata ties a record of the platform to one of the integrator's. Patients,
// practitioners, staff and treatment plans have it.
//
// An update with api.Value(clinic.Metadata{}) or api.Null[clinic.Metadata]() removes the
// id. Assumption: the platform removes an id that is set to null.
// API section: "Metadata".
type Metadata struct {
	// ID is chosen by the integrator. Empty means that the record has no id.
	ID string `json:"id"`
}

// MarshalJSON writes an empty ID as null, so that an update removes the id.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m.ID == "" {
		return []byte(`{"id":null}`), nil
	}
	type plain Metadata
	return json.Marshal(plain(m))
}
