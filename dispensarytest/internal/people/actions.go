// Package people performs the actions of the people who use the platform itself. Actions
// change the world and make events, as on the real platform. The interfaces of package
// dispensarytest document them.
package people

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
)

// Config is the platform that people act on.
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

// actions are what the actions of all people have in common.
type actions struct{ Config }

// begin locks the world for an action. done unlocks it and announces the change.
func (a *actions) begin() (w *store.World, done func()) {
	a.Store.Lock()
	return a.Store.World, func() {
		a.Store.Unlock()
		a.Changes.Notify()
	}
}

// all copies a table. It is a function, like find, because a package compiles the methods of
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
