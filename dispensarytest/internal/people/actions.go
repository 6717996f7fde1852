// Package people performs actions of the people who use the platform itself. As on the real
// platform, an action changes the world and emits an event. The interfaces of package
// dispensarytest document the actions.
package people

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
)

// Config describes the platform on which people act.
type Config struct {
	Store      *store.Store
	Clock      *clock.Clock
	Behaviors  *rules.Current
	Tokens     *tokens.Store
	Sender     *webhooks.Sender
	Changes    *clock.Notifier
	Origin     string // of the links in events
	EventLimit int
}

// actions contains the parts that all actions share.
type actions struct{ Config }

// begin locks the world for an action. done unlocks it and announces the change.
func (a *actions) begin() (w *store.World, done func()) {
	a.Store.Lock()
	return a.Store.World, func() {
		a.Store.Unlock()
		a.Changes.Notify()
	}
}

// all copies a table. Like find, it is a function, because a package compiles the methods of
// each generic type that its imports mention.
func all[T any](a *actions, of func(*store.World) table.Table[*T]) (rows []T) {
	a.Store.Look(func(w *store.World) {
		for row := range table.All(of(w)) {
			rows = append(rows, store.Detached(*row))
		}
	})
	return rows
}

// find copies a row.
func find[T any](a *actions, of func(*store.World) table.Table[*T], id string) (row T, known bool) {
	a.Store.Look(func(w *store.World) {
		var found *T
		if found, known = of(w).Rows[id]; known {
			row = store.Detached(*found)
		}
	})
	return row, known
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
