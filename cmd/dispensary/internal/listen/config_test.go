package listen_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/listen"
	"github.com/dispensary-go/dispensary/events"
)

func TestWrongConfigurations(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		for field, change := range map[string]func(*listen.Config){
			"Config.Sources is empty":              func(c *listen.Config) { c.Sources = nil },
			"Config.Sources holds two":             func(c *listen.Config) { c.Sources = append(c.Sources, c.Sources[0]) },
			"Config.Forwarder is missing":          func(c *listen.Config) { c.Forwarder = nil },
			"Config.Cursor is missing":             func(c *listen.Config) { c.Cursor = "" },
			"Config.Since is negative":             func(c *listen.Config) { c.Since = -1 },
			"Config.Interval is negative":          func(c *listen.Config) { c.Interval = -1 },
			"Config.Types is empty":                func(c *listen.Config) { c.Types = []events.Type{} },
			`Config.Types holds "patient"`:         func(c *listen.Config) { c.Types = []events.Type{"patient"} },
			`Config.Types holds "payment.updated"`: func(c *listen.Config) { c.Types = []events.Type{events.OrderPlaced, "payment.updated"} },
			"Source.Events is missing":             func(c *listen.Config) { c.Sources[0].Events = events.Service{} },
			"Source.Environment is invalid":        func(c *listen.Config) { c.Sources[0].Environment.Region = "x" },
		} {
			c := f.config(t)
			change(&c)
			_, err := listen.New(c)
			wrong(t, err, "listen."+field)
		}
	})
}
