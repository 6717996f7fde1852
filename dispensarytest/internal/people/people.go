package people

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// People contains all actions, by object.
type People struct {
	Patients  Patients
	Plans     Plans
	Protocols Protocols
	Orders    Orders
	Products  Products
	Clinics   Clinics

	Practitioners Practitioners
	Variants      Variants
}

// New returns the people of a platform.
func New(config Config) *People {
	a := &actions{config}
	return &People{Patients{a}, Plans{a}, Protocols{a}, Orders{a}, Products{a}, Clinics{a}, Practitioners{a}, Variants{a}}
}

// Events returns the stored events, oldest first.
func (p *People) Events() []model.Event {
	p.Patients.forgetEvents()
	return all(p.Patients.actions, func(w *store.World) table.Table[*model.Event] { return w.Events })
}

// Overview returns up to latest rows of each kind, newest first, and the totals.
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

// newest copies the last rows of a table, newest first, and counts all rows.
func newest[T any](rows table.Table[*T], most int) (copied []T, total int) {
	total = len(rows.Rows)
	for place := total - 1; place >= max(0, total-most); place-- {
		copied = append(copied, store.Detached(*table.At(rows, place)))
	}
	return copied, total
}
