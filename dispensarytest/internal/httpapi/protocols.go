package httpapi

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// protocolView is a protocol. API section: "Protocol (formerly template)".
type protocolView struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	State           string            `json:"current_state"`
	Practitioner    *view.IDRef       `json:"practitioner,omitempty"`    // protocols
	PractitionerID  string            `json:"practitioner_id,omitempty"` // templates
	PersonalMessage *string           `json:"personal_message"`
	Recommendations []protocolRecView `json:"recommendations"`
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

// viewBoth returns the fields that protocols and templates share.
func viewBoth(p *model.Protocol) protocolView {
	answer := protocolView{
		ID: p.ID, Name: p.Name, State: p.State, PersonalMessage: view.NullText(p.PersonalMessage),
		Recommendations: []protocolRecView{},
	}
	for _, r := range p.Recommendations {
		answer.Recommendations = append(answer.Recommendations, protocolRecView{
			VariantID: r.VariantID, Refill: r.Refill, Amount: r.Dosage.Amount, Frequency: r.Dosage.Frequency,
			Duration: view.NullText(r.Dosage.Duration), Permutations: r.Permutations, Format: r.Dosage.Format, Quantity: r.Quantity,
		})
	}
	return answer
}

func viewProtocol(p *model.Protocol) protocolView {
	answer := viewBoth(p)
	answer.Practitioner = &view.IDRef{ID: p.PractitionerID}
	return answer
}

func viewTemplate(p *model.Protocol) protocolView {
	answer := viewBoth(p)
	answer.PractitionerID = p.PractitionerID
	return answer
}

// listProtocols supports the API's filters and ownership_type. The values and the default
// ("owned") of ownership_type are an assumption.
func listProtocols(c *call, w *store.World, practitioner *model.Practitioner) (reply, error) {
	state, err := c.params.oneOf("current_state", model.PlanStateActive, model.PlanStateDraft, model.PlanStateCanceled)
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
	rows := table.Where(w.Protocols, func(p *model.Protocol) bool {
		owned := p.PractitionerID == practitioner.ID
		return (state == "" || state == p.State) && w.Offers(p, owned, ownership, c.clinicID())
	})
	switch {
	case field == "name":
		sortRows(rows, descending, func(p *model.Protocol) string { return p.Name })
	case field == "current_state":
		sortRows(rows, descending, func(p *model.Protocol) string { return p.State })
	case descending:
		slices.Reverse(rows)
	}
	return listOf(c, rows, func(p *model.Protocol) protocolItem {
		item := viewProtocolItem(p)
		item.Ownership = "shared"
		if p.PractitionerID == practitioner.ID {
			item.Ownership = "owned"
		}
		return item
	}), nil
}

func viewProtocolItem(p *model.Protocol) protocolItem {
	return protocolItem{ID: p.ID, Name: p.Name, State: p.State}
}

func listTemplates(c *call, w *store.World, practitioner *model.Practitioner) (reply, error) {
	return listOf(c, table.Where(w.Protocols, func(p *model.Protocol) bool { return p.PractitionerID == practitioner.ID }), viewProtocolItem), nil
}
