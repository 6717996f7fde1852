package store

import (
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

type WorldFile struct {
	Numbers           map[string]uint64
	Allergens         []*model.Term             `json:",omitempty"`
	Ingredients       []*model.Term             `json:",omitempty"`
	SupplementTypes   []*model.Term             `json:",omitempty"`
	Certifications    []*model.Term             `json:",omitempty"`
	PractitionerTypes []*model.PractitionerType `json:",omitempty"`
	Brands            []*model.Brand            `json:",omitempty"`
	Products          []*model.Product          `json:",omitempty"`
	Variants          []*model.Variant          `json:",omitempty"`
	Categories        []*model.Category         `json:",omitempty"`
	CustomDosages     []customDosageFile        `json:",omitempty"`
	Clinics           []*model.Clinic           `json:",omitempty"`
	Integrations      []integrationFile         `json:",omitempty"`
	Patients          []*model.Patient          `json:",omitempty"`
	Practitioners     []*model.Practitioner     `json:",omitempty"`
	Staff             []*model.StaffMember      `json:",omitempty"`
	Addresses         []*model.Address          `json:",omitempty"`
	Users             []UserFile                `json:",omitempty"`
	Plans             []*model.Plan             `json:",omitempty"`
	Protocols         []*model.Protocol         `json:",omitempty"`
	Orders            []*model.Order            `json:",omitempty"`
	Events            []*model.Event            `json:",omitempty"`
	Carts             []cartFile                `json:",omitempty"`
}

type customDosageFile struct {
	PractitionerID, ProductID string
	Dosage                    model.Dosage
}

type integrationFile struct {
	ID, ClinicID, Key string
	Activated         time.Time
	Revoked           bool
}

type UserFile struct {
	model.User
	ClinicID string
}

type cartFile struct {
	PatientID, PlanID string
	Lines             []model.Line
}

func FileUser(u model.User) UserFile { return UserFile{User: u, ClinicID: u.ClinicID} }

func (f UserFile) Row() model.User {
	f.User.ClinicID = f.ClinicID
	return f.User
}
