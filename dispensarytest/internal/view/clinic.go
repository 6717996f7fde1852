package view

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// personItem is a patient in list and search responses.
type personItem struct {
	ID        string `json:"id"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Email     string `json:"email"`
}

// PatientView is a patient. API section: "Patient".
type PatientView struct {
	personItem
	DateOfBirth      *string       `json:"date_of_birth"`
	Gender           *string       `json:"gender"`
	Discount         float64       `json:"discount"`
	TotalDiscount    float64       `json:"total_discount"`
	MobileNumber     *string       `json:"mobile_number"`
	TextNotification any           `json:"text_message_notification"`
	Metadata         *MetadataView `json:"metadata,omitempty"`
}

// MetadataView contains the integrator's identifier.
type MetadataView struct {
	ID *string `json:"id"`
}

func Metadata(id string) *MetadataView { return &MetadataView{ID: NullText(id)} }

func PatientItem(p *model.Patient) personItem {
	return personItem{p.ID, p.FirstName, p.LastName, p.Email}
}

// colleagueView is a practitioner or a member of the office staff. API sections:
// "Practitioner", "Staff".
type colleagueView struct {
	personItem
	TypeID   string        `json:"practitioner_type_id,omitempty"` // of practitioners
	Metadata *MetadataView `json:"metadata"`
}

func Colleague(c *store.Colleague) colleagueView {
	return colleagueView{personItem{c.ID, c.FirstName, c.LastName, c.Email}, c.TypeID, Metadata(c.MetadataID)}
}

func Patient(w *store.World, p *model.Patient) PatientView {
	return PatientView{
		personItem: PatientItem(p), DateOfBirth: NullText(p.DateOfBirth), Gender: NullText(p.Gender),
		Discount: p.Discount, TotalDiscount: w.TotalDiscount(p), MobileNumber: NullText(p.MobileNumber),
		TextNotification: p.TextNotification, Metadata: Metadata(p.MetadataID),
	}
}

// IDRef refers to an object by its id.
type IDRef struct {
	ID string `json:"id"`
}

// PatientData is the event data of a patient, wrapped as the API shows it.
func PatientData(w *store.World, p *model.Patient) any {
	return map[string]PatientView{"patient": Patient(w, p)}
}

// orderView is an order. Its fields depend on the response. API section: "Order".
type orderView struct {
	ID           string      `json:"id"`
	Number       string      `json:"order_number"`
	CompletedAt  string      `json:"completed_at"`
	MSRPTotal    model.Cents `json:"msrp_total"`
	ItemTotal    model.Cents `json:"item_total"`
	PaymentTotal model.Cents `json:"payment_total"`
	VariantIDs   []string    `json:"variant_ids,omitempty"` // in lists
	PlanIDs      []string    `json:"treatment_plan_ids"`
	PatientID    string      `json:"patient_id,omitempty"` // in single-order and all-orders responses
	Lines        []lineView  `json:"line_items,omitempty"` // in the single-order response
}

type lineView struct {
	VariantID string `json:"variant_id"`
	Quantity  int    `json:"quantity"`
}

func OrderBase(o *model.Order) orderView {
	return orderView{
		ID: o.ID, Number: o.Number, CompletedAt: o.CompletedAt.Format("2006-01-02T15:04:05.000-07:00"),
		MSRPTotal: o.MSRPTotal, ItemTotal: o.ItemTotal, PaymentTotal: o.PaymentTotal,
		PlanIDs: append([]string{}, o.PlanIDs...), // never null
	}
}

// PatientOrder is an order in a patient's list.
func PatientOrder(o *model.Order) orderView {
	view := OrderBase(o)
	view.VariantIDs = table.Map(o.Lines, func(l model.Line) string { return l.VariantID })
	return view
}

// OrderItem is an order in the list of all orders.
func OrderItem(o *model.Order) orderView {
	view := PatientOrder(o)
	view.PatientID = o.PatientID
	return view
}

// Order is an order in the single-order response and in event data.
func Order(o *model.Order) orderView {
	view := OrderBase(o)
	view.PatientID = o.PatientID
	view.Lines = table.Map(o.Lines, func(l model.Line) lineView { return lineView(l) })
	return view
}

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
	return DosageView{d.Amount, d.Frequency, NullText(d.Duration), d.Format, d.AdditionalInfo}
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
