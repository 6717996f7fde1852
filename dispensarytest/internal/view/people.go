package view

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
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
	ID               string        `json:"id"`
	FirstName        string        `json:"first_name"`
	LastName         string        `json:"last_name"`
	Email            string        `json:"email"`
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
	return personItem{ID: p.ID, FirstName: p.FirstName, LastName: p.LastName, Email: p.Email}
}

func Patient(w *store.World, p *model.Patient) PatientView {
	return PatientView{
		ID: p.ID, FirstName: p.FirstName, LastName: p.LastName, Email: p.Email,
		DateOfBirth: NullText(p.DateOfBirth), Gender: NullText(p.Gender),
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
	return struct {
		Patient PatientView `json:"patient"`
	}{Patient(w, p)}
}
