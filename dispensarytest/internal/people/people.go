// Package people are the actions of those who use the platform itself: patients who
// register and order, practitioners who write plans, clinics that give and take access, a
// catalog that changes. Actions make events and hand them to the webhook sender.
package people

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// People is the second actor: the people who use the platform itself.
// Patients register and order, practitioners write plans, clinics give and take
// access, the catalog changes. What they do makes events, as on the real
// platform; what the integrator does through the API never does.
//
// Every action returns its event. Actions fail with an [*model.ActionError] and change
// nothing then. The events of an action that makes none have no ID.
type People struct {
	Store      *store.Store
	Clock      *clock.Clock
	Behaviors  *behavior.Current
	Tokens     *tokens.Store
	Sender     *webhooks.Sender
	Changes    *clock.Notifier
	Origin     string
	EventLimit int
}

// act runs an action under the world's lock.
func (p *People) act(run func(w *store.World) error) error {
	defer p.Changes.Notify()
	p.Store.Lock()
	defer p.Store.Unlock()
	return run(p.Store.World)
}

// all copies a table.
func all[T any](p *People, of func(*store.World) *table.Table[*T]) []T {
	p.Store.RLock()
	defer p.Store.RUnlock()
	var rows []T
	for row := range of(p.Store.World).All() {
		rows = append(rows, store.Detached(*row))
	}
	return rows
}

// find copies a row.
func find[T any](p *People, of func(*store.World) *table.Table[*T], id string) (T, bool) {
	p.Store.RLock()
	defer p.Store.RUnlock()
	row, known := of(p.Store.World).Get(id)
	if !known {
		return *new(T), false
	}
	return store.Detached(*row), true
}

// Brands returns all brands.
func (p *People) Brands() []model.Brand {
	return all(p, func(w *store.World) *table.Table[*model.Brand] { return &w.Brands })
}

// Clinics returns all clinics.
func (p *People) Clinics() []model.Clinic {
	return all(p, func(w *store.World) *table.Table[*model.Clinic] { return &w.Clinics })
}

// Patients returns all patients, in the order they were created.
func (p *People) Patients() []model.Patient {
	return all(p, func(w *store.World) *table.Table[*model.Patient] { return &w.Patients })
}

// Practitioners returns all practitioners.
func (p *People) Practitioners() []model.Practitioner {
	return all(p, func(w *store.World) *table.Table[*model.Practitioner] { return &w.Practitioners })
}

// Products returns all products that are not removed, in the catalog's order.
func (p *People) Products() []model.Product {
	products := all(p, func(w *store.World) *table.Table[*model.Product] { return &w.Products })
	return slices.DeleteFunc(products, func(p model.Product) bool { return p.Removed })
}

// Orders returns all orders, in the order they were placed.
func (p *People) Orders() []model.Order {
	return all(p, func(w *store.World) *table.Table[*model.Order] { return &w.Orders })
}

// Plans returns all treatment plans, in the order they were created.
func (p *People) Plans() []model.Plan {
	return all(p, func(w *store.World) *table.Table[*model.Plan] { return &w.Plans })
}

// Events returns the events that are kept, the oldest first: those of the last 30
// days, and not more than EventLimit.
func (p *People) Events() []model.Event {
	p.forgetEvents()
	return all(p, func(w *store.World) *table.Table[*model.Event] { return &w.Events })
}

// Order returns an order by id.
func (p *People) Order(id string) (model.Order, bool) {
	return find(p, func(w *store.World) *table.Table[*model.Order] { return &w.Orders }, id)
}

// Patient returns a patient by id.
func (p *People) Patient(id string) (model.Patient, bool) {
	return find(p, func(w *store.World) *table.Table[*model.Patient] { return &w.Patients }, id)
}

// Plan returns a treatment plan by id.
func (p *People) Plan(id string) (model.Plan, bool) {
	return find(p, func(w *store.World) *table.Table[*model.Plan] { return &w.Plans }, id)
}

// Product returns a product by id.
func (p *People) Product(id string) (model.Product, bool) {
	return find(p, func(w *store.World) *table.Table[*model.Product] { return &w.Products }, id)
}

// Variant returns a variant by id.
func (p *People) Variant(id string) (model.Variant, bool) {
	return find(p, func(w *store.World) *table.Table[*model.Variant] { return &w.Variants }, id)
}

// Cart returns what a patient is about to order: an in-office checkout fills it.
func (p *People) Cart(patientID string) []model.Line {
	c, _ := find(p, func(w *store.World) *table.Table[*store.Cart] { return &w.Carts }, patientID)
	return slices.Clone(c.Lines)
}

// Overview returns so many rows of each kind at most. It takes as long in a large
// world as in a small one, which is what it is for: Orders copies all.
func (p *People) Overview(latest int) model.Overview {
	p.Store.RLock()
	defer p.Store.RUnlock()
	w := p.Store.World
	o := model.Overview{
		Patients: newest(&w.Patients, latest), Plans: newest(&w.Plans, latest), Orders: newest(&w.Orders, latest),
		Products: newest(&w.Products, latest), Events: newest(&w.Events, latest),
	}
	o.Totals.Patients, o.Totals.Plans, o.Totals.Orders = w.Patients.Len(), w.Plans.Len(), w.Orders.Len()
	o.Totals.Products, o.Totals.Events = w.Products.Len(), w.Events.Len()
	return o
}

// newest copies the last rows of a table, the last one first.
func newest[T any](rows *table.Table[*T], most int) (copied []T) {
	for seat := rows.Len() - 1; seat >= max(0, rows.Len()-most); seat-- {
		copied = append(copied, store.Detached(*rows.At(seat)))
	}
	return copied
}
