package view

import (
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// planItem is a treatment plan in a list. API section: "Treatment plan".
type planItem struct {
	ID           string  `json:"id"`
	State        string  `json:"state"`
	Patient      *IDRef  `json:"patient"`
	Practitioner IDRef   `json:"practitioner"`
	AvailableAt  *string `json:"available_at"`
	CreatedAt    string  `json:"created_at"`
	UpdatedAt    string  `json:"updated_at"`
}

// PlanView is a whole treatment plan. The dosage of its recommendations has different field
// names in responses and in event data.
type PlanView[D any] struct {
	planItem
	InvitationURL   *string       `json:"invitation_url"`
	PersonalMessage *string       `json:"personal_message"`
	Recommendations []planLine[D] `json:"recommendations"`
	Metadata        *MetadataView `json:"metadata"`
}

type planLine[D any] struct {
	VariantID string `json:"variant_id"`
	Refill    bool   `json:"refill"`
	Units     int    `json:"units_to_purchase"`
	Dosage    *D     `json:"dosage"`
}

// DosageView is a dosage with the field names of treatment plans.
type DosageView struct {
	Amount         string  `json:"amount"`
	Frequency      string  `json:"frequency"`
	Duration       *string `json:"duration"`
	Format         string  `json:"format"`
	AdditionalInfo string  `json:"additional_info"`
}

func Dosage(d model.Dosage) DosageView {
	return DosageView{
		Amount: d.Amount, Frequency: d.Frequency, Duration: NullText(d.Duration),
		Format: d.Format, AdditionalInfo: d.AdditionalInfo,
	}
}

func PlanItem(p *model.Plan) planItem {
	item := planItem{
		ID: p.ID, State: p.State, Practitioner: IDRef{ID: p.PractitionerID},
		AvailableAt: NullDay(p.AvailableAt), CreatedAt: Time(p.CreatedAt), UpdatedAt: Time(p.UpdatedAt),
	}
	if p.PatientID != "" {
		item.Patient = &IDRef{ID: p.PatientID}
	}
	return item
}

// Plan returns the view of a plan. Assumption: a draft has no invitation yet.
func Plan[D any](origin string, inviteDrafts bool, p *model.Plan, dosage func(model.Dosage) D) PlanView[D] {
	view := PlanView[D]{
		planItem: PlanItem(p), PersonalMessage: NullText(p.PersonalMessage),
		Recommendations: make([]planLine[D], 0, len(p.Recommendations)), Metadata: Metadata(p.MetadataID),
	}
	if p.State != model.PlanStateDraft || inviteDrafts {
		view.InvitationURL = new(origin + "/plans/" + p.ID + "/invitation")
	}
	for _, r := range p.Recommendations {
		line := planLine[D]{VariantID: r.VariantID, Refill: r.Refill, Units: r.UnitsToPurchase}
		if r.Dosage != nil {
			line.Dosage = new(dosage(*r.Dosage))
		}
		view.Recommendations = append(view.Recommendations, line)
	}
	return view
}
