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
	held := s.store
	held.Lock()
	defer held.Unlock()
	return run(held.World)
}

// all copies a table.
func all[T any](s *Server, of func(*store.World) table.Table[*T]) []T {
	held := s.store
	held.RLock()
	defer held.RUnlock()
	var rows []T
	for row := range table.All(of(held.World)) {
		rows = append(rows, store.Detached(*row))
	}
	return rows
}

// find copies a row.
func find[T any](s *Server, of func(*store.World) table.Table[*T], id string) (T, bool) {
	held := s.store
	held.RLock()
	defer held.RUnlock()
	row, known := of(held.World).Rows[id]
	if !known {
		return *new(T), false
	}
	return store.Detached(*row), true
}

// Events returns the events that are kept, the oldest first: those of the last 30
// days, and not more than [WithEventLimit] says.
func (s *Server) Events() []model.Event {
	actions{s}.forgetEvents()
	return all(s, func(w *store.World) table.Table[*model.Event] { return w.Events })
}

// Overview returns so many rows of each kind at most. It takes as long in a large
// world as in a small one, which is what it is for: [Orders.All] copies all.
func (s *Server) Overview(latest int) model.Overview {
	held := s.store
	held.RLock()
	defer held.RUnlock()
	w := held.World
	o := model.Overview{
		Patients: newest(w.Patients, latest), Plans: newest(w.Plans, latest), Orders: newest(w.Orders, latest),
		Products: newest(w.Products, latest), Events: newest(w.Events, latest),
	}
	o.Totals.Patients, o.Totals.Plans, o.Totals.Orders = len(w.Patients.Rows), len(w.Plans.Rows), len(w.Orders.Rows)
	o.Totals.Products, o.Totals.Events = len(w.Products.Rows), len(w.Events.Rows)
	return o
}

// newest copies the last rows of a table, the last one first.
func newest[T any](rows table.Table[*T], most int) (copied []T) {
	for seat := len(rows.Rows) - 1; seat >= max(0, len(rows.Rows)-most); seat-- {
		copied = append(copied, store.Detached(*table.At(rows, seat)))
	}
	return copied
}
