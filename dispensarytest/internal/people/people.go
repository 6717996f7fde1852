package people

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// People are all actions, by their subject.
type People struct {
	Patients  Patients
	Plans     Plans
	Protocols Protocols
	Orders    Orders
	Products  Products
	Clinics   Clinics

	Practitioners Records[model.Practitioner]
	Variants      Records[model.Variant]
}

// New returns the people of a platform.
func New(config Config) *People {
	a := &actions{config}
	return &People{
		Patients:      Patients{Records[model.Patient]{a, func(w *store.World) table.Table[*model.Patient] { return w.Patients }}},
		Plans:         Plans{Records[model.Plan]{a, func(w *store.World) table.Table[*model.Plan] { return w.Plans }}},
		Protocols:     Protocols{Records[model.Protocol]{a, func(w *store.World) table.Table[*model.Protocol] { return w.Protocols }}},
		Orders:        Orders{Records[model.Order]{a, func(w *store.World) table.Table[*model.Order] { return w.Orders }}},
		Products:      Products{Records[model.Product]{a, func(w *store.World) table.Table[*model.Product] { return w.Products }}},
		Clinics:       Clinics{Records[model.Clinic]{a, func(w *store.World) table.Table[*model.Clinic] { return w.Clinics }}},
		Practitioners: Records[model.Practitioner]{a, func(w *store.World) table.Table[*model.Practitioner] { return w.Practitioners }},
		Variants:      Records[model.Variant]{a, func(w *store.World) table.Table[*model.Variant] { return w.Variants }},
	}
}

// Events returns the events that are kept, the oldest first.
func (p *People) Events() []model.Event {
	p.Patients.forgetEvents()
	return Records[model.Event]{p.Patients.actions, func(w *store.World) table.Table[*model.Event] { return w.Events }}.All()
}

// Overview returns up to latest rows of each kind, the newest first, and the totals.
func (p *People) Overview(latest int) (o model.Overview) {
	p.Patients.Store.Look(func(w *store.World) {
		o.Patients, o.Totals.Patients = newest(w.Patients, latest)
		o.Plans, o.Totals.Plans = newest(w.Plans, latest)
		o.Orders, o.Totals.Orders = newest(w.Orders, latest)
		o.Products, o.Totals.Products = newest(w.Products, latest)
		o.Events, o.Totals.Events = newest(w.Events, latest)
	})
	return o
}

// newest copies the last rows of a table, the last one first, and counts all of them.
func newest[T any](rows table.Table[*T], most int) (copied []T, total int) {
	total = len(rows.Rows)
	for place := total - 1; place >= max(0, total-most); place-- {
		copied = append(copied, store.Detached(*table.At(rows, place)))
	}
	return copied, total
}
