package people

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Overview returns so many rows of each kind at most. It takes as long in a large
// world as in a small one, which is what it is for: [dispensarytest.Orders] copies all.
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
func newest[T any](rows *table.Table[T], most int) (copied []T) {
	for seat := rows.Len() - 1; seat >= max(0, rows.Len()-most); seat-- {
		copied = append(copied, store.Detached(*rows.At(seat)))
	}
	return copied
}
