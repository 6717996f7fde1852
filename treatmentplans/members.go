package treatmentplans

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
)

// UnknownMembers contains members of a JSON object, without its braces. It prints only their
// length.
type UnknownMembers string

// Format prints the length, for every verb.
func (m UnknownMembers) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.length()) }

// LogValue returns the length.
func (m UnknownMembers) LogValue() slog.Value { return slog.StringValue(m.length()) }

func (m UnknownMembers) length() string { return fmt.Sprintf("%d bytes", len(m)) }

// appendTo appends the members to an encoded object.
func (m UnknownMembers) appendTo(object []byte) []byte {
	if m == "" {
		return object
	}
	object = object[:len(object)-1]
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(object, m...), '}')
}

// body returns the body of an update. Few plans have unknown members, and only those need the
// slower encoding.
func (u PlanUpdate) body() any {
	known := true
	for _, r := range u.Recommendations {
		known = known && r.Unknown == "" && r.Dosage.Unknown == ""
	}
	if known {
		return u
	}
	body := updateBody{PersonalMessage: u.PersonalMessage, Metadata: u.Metadata}
	for _, r := range u.Recommendations {
		body.Recommendations = append(body.Recommendations, updateLine{r})
	}
	return body
}

// updateBody is a [PlanUpdate] that writes unknown members.
type updateBody struct {
	Recommendations []updateLine                  `json:"recommendations"`
	PersonalMessage api.Optional[string]          `json:"personal_message,omitzero"`
	Metadata        api.Optional[clinic.Metadata] `json:"metadata,omitzero"`
}

// updateLine embeds the recommendation, so that its fields are checked by name.
type updateLine struct{ Recommendation }

// MarshalJSON writes the recommendation and its dosage with their unknown members.
func (l updateLine) MarshalJSON() ([]byte, error) {
	line := struct {
		Recommendation
		Dosage json.RawMessage `json:"dosage,omitempty"` // shadows the embedded field
	}{Recommendation: l.Recommendation}
	if l.Dosage != (Dosage{}) {
		dosage, err := json.Marshal(l.Dosage)
		if err != nil {
			return nil, err
		}
		line.Dosage = l.Dosage.Unknown.appendTo(dosage)
	}
	object, err := json.Marshal(line)
	if err != nil {
		return nil, err
	}
	return l.Unknown.appendTo(object), nil
}
