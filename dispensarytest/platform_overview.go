package dispensarytest

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// Overview is the latest of what a platform holds, the newest first, and how much
// there is of it.
type Overview struct {
	Patients []Patient
	Plans    []Plan
	Orders   []Order
	Products []Product
	Events   []Event

	// Totals count all of them, older ones included.
	Totals struct{ Patients, Plans, Orders, Products, Events int }
}

// Overview returns so many rows of each kind at most. It takes as long in a large
// world as in a small one, which is what it is for: [Platform.Orders] copies all.
func (p *Platform) Overview(latest int) Overview {
	p.srv.mu.RLock()
	defer p.srv.mu.RUnlock()
	w := p.srv.world
	o := Overview{
		Patients: newest(&w.patients, latest), Plans: newest(&w.plans, latest), Orders: newest(&w.orders, latest),
		Products: newest(&w.products, latest), Events: newest(&w.events, latest),
	}
	o.Totals.Patients, o.Totals.Plans, o.Totals.Orders = w.patients.Len(), w.plans.Len(), w.orders.Len()
	o.Totals.Products, o.Totals.Events = w.products.Len(), w.events.Len()
	return o
}

// newest copies the last rows of a table, the last one first.
func newest[T any](rows *table.Table[T], most int) (copied []T) {
	for seat := rows.Len() - 1; seat >= max(0, rows.Len()-most); seat-- {
		copied = append(copied, detached(*rows.At(seat)))
	}
	return copied
}
