package clinic

import "encoding/json"

// Metadata links a record of the platform to one of yours. Patients, practitioners, staff and
// treatment plans have it.
//
// An update with api.Value(clinic.Metadata{}) or api.Null[clinic.Metadata]() removes the ID.
// Assumption: the platform removes an ID if an update sets it to null.
// API section: "Metadata".
type Metadata struct {
	// ID is an identifier of your choice. Empty means that the record has none.
	ID string `json:"id"`
}

// MarshalJSON writes an empty ID as null, so that an update removes it.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m.ID == "" {
		return []byte(`{"id":null}`), nil
	}
	type plain Metadata
	return json.Marshal(plain(m))
}
