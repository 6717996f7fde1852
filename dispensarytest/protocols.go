package dispensarytest

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// protocolView is a protocol. API section: "Protocol (formerly template)".
type protocolView struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	State           string            `json:"current_state"`
	Practitioner    *idRef            `json:"practitioner,omitempty"`    // protocols
	PractitionerID  string            `json:"practitioner_id,omitempty"` // templates
	PersonalMessage *string           `json:"personal_message"`
	Recommendations []protocolRecView `json:"recommendations"`
}

// idRef is an object that is named by its id alone.
type idRef struct {
	ID string `json:"id"`
}

// protocolItem is a protocol or template in a list.
type protocolItem struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	State     string `json:"current_state"`
	Ownership string `json:"ownership_type,omitempty"` // protocols
}

type protocolRecView struct {
	VariantID    string  `json:"variant_id"`
	Refill       bool    `json:"refill"`
	Amount       string  `json:"dosage_amount"`
	Frequency    string  `json:"dosage_frequency"`
	Duration     *string `json:"dosage_duration"`
	Permutations string  `json:"dosage_permutations"`
	Format       string  `json:"dosage_format"`
	Quantity     int     `json:"quantity_recommended"`
}

func viewProtocol(p *Protocol) protocolView {
	view := protocolView{
		ID: p.ID, Name: p.Name, State: p.State, PersonalMessage: orNull(p.PersonalMessage),
		Recommendations: []protocolRecView{},
	}
	for _, r := range p.Recommendations {
		view.Recommendations = append(view.Recommendations, protocolRecView{
			VariantID: r.VariantID, Refill: r.Refill, Amount: r.Dosage.Amount, Frequency: r.Dosage.Frequency,
			Duration: orNull(r.Dosage.Duration), Permutations: r.Permutations, Format: r.Dosage.Format, Quantity: r.Quantity,
		})
	}
	return view
}

func (w *world) protocolOf(clinicID, id string) (*Protocol, bool) {
	p, known := w.protocols.Get(id)
	if !known {
		return nil, false
	}
	_, ours := w.practitionerOf(clinicID, p.PractitionerID)
	return p, ours
}

func getProtocol(c *call, w *world) (reply, error) {
	p, known := w.protocolOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	view := viewProtocol(p)
	view.Practitioner = &idRef{ID: p.PractitionerID}
	return ok(view), nil
}

// listProtocols has the API's filters and ownership_type, whose values and
// default ("owned") are an assumption.
func listProtocols(c *call, w *world) (reply, error) {
	practitioner, known := w.practitionerOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	state, err := c.params.oneOf("current_state", StateActive, StateDraft, StateCancelled)
	if err != nil {
		return reply{}, err
	}
	ownership, err := c.params.oneOf("ownership_type", "owned", "shared", "all")
	if err != nil {
		return reply{}, err
	}
	field, descending, err := c.params.order("name", "current_state")
	if err != nil {
		return reply{}, err
	}
	rows := w.protocols.Where(func(p *Protocol) bool {
		owned := p.PractitionerID == practitioner.ID
		return (state == "" || state == p.State) && w.offers(p, owned, ownership, c.clinicID())
	})
	switch {
	case field == "name":
		sortRows(rows, descending, func(p *Protocol) string { return p.Name })
	case field == "current_state":
		sortRows(rows, descending, func(p *Protocol) string { return p.State })
	case descending:
		slices.Reverse(rows)
	}
	return listOf(c, table.Rows(rows), func(p *Protocol) protocolItem {
		item := viewProtocolItem(p)
		item.Ownership = "shared"
		if p.PractitionerID == practitioner.ID {
			item.Ownership = "owned"
		}
		return item
	}), nil
}

// offers reports that a practitioner sees a protocol under an ownership filter:
// one's own, and those that colleagues of the clinic share.
func (w *world) offers(p *Protocol, owned bool, filter, clinicID string) bool {
	_, ours := w.practitionerOf(clinicID, p.PractitionerID)
	shared := !owned && ours && p.Ownership == "shared"
	switch filter {
	case "shared":
		return shared
	case "all":
		return owned || shared
	default:
		return owned
	}
}

func viewProtocolItem(p *Protocol) protocolItem {
	return protocolItem{ID: p.ID, Name: p.Name, State: p.State}
}

func getTemplate(c *call, w *world) (reply, error) {
	p, known := w.protocolOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	view := viewProtocol(p)
	view.PractitionerID = p.PractitionerID
	return ok(view), nil
}

func listTemplates(c *call, w *world) (reply, error) {
	practitioner, known := w.practitionerOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return listOf(c, table.Rows(w.protocols.Where(func(p *Protocol) bool { return p.PractitionerID == practitioner.ID })), viewProtocolItem), nil
}
