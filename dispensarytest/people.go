package dispensarytest

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// actions are what the actions of all kinds of people have in common.
type actions struct{ server *Server }

// transact runs an action under the world's lock. It is no method, see parts.
func transact(s *Server, run func(w *store.World) error) error {
	defer s.changes.Notify()
	held := partsOf(s).store
	held.Lock()
	defer held.Unlock()
	return run(held.World)
}

// all copies a table.
func all[T any](s *Server, of func(*store.World) *table.Table[*T]) []T {
	held := partsOf(s).store
	held.RLock()
	defer held.RUnlock()
	var rows []T
	for row := range of(held.World).All() {
		rows = append(rows, store.Detached(*row))
	}
	return rows
}

// find copies a row.
func find[T any](s *Server, of func(*store.World) *table.Table[*T], id string) (T, bool) {
	held := partsOf(s).store
	held.RLock()
	defer held.RUnlock()
	row, known := of(held.World).Get(id)
	if !known {
		return *new(T), false
	}
	return store.Detached(*row), true
}

// Events returns the events that are kept, the oldest first: those of the last 30
// days, and not more than [WithEventLimit] says.
func (s *Server) Events() []model.Event {
	actions{s}.forgetEvents()
	return all(s, func(w *store.World) *table.Table[*model.Event] { return &w.Events })
}

// Overview returns so many rows of each kind at most. It takes as long in a large
// world as in a small one, which is what it is for: [Orders.All] copies all.
func (s *Server) Overview(latest int) model.Overview {
	held := partsOf(s).store
	held.RLock()
	defer held.RUnlock()
	w := held.World
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
