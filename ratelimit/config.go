package ratelimit

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
)

// Defaults of a [FleetConfig].
const (
	defaultProcesses = 10
	defaultTimeout   = time.Second
)

// FleetConfig is the configuration of a [Fleet]. Store is required.
type FleetConfig struct {
	// Store counts the requests of all processes.
	Store Store

	// Name is the name of the limit: fleets with the same store and name share it. Each
	// application has its own limit in each environment. An empty name is valid.
	Name string

	// Requests is the number of requests that all processes may send in any period of Per, by
	// the platform's clock. 0 means 5,000 requests in 5 minutes. All processes must have
	// the same values.
	Requests int
	Per      time.Duration

	// Processes is the largest number of processes. While the store is away, each process keeps
	// to Requests / Processes, but at least 1. 0 means 10.
	Processes int

	// Timeout is the longest time that the store may take to respond, after which it counts as
	// away. 0 means 1 second. A start may be that much later than its record, so the
	// periods of the store are longer than Per by Timeout, and by a second for the way to the
	// platform.
	Timeout time.Duration

	// Logger logs when the store goes away and when it is back. Nil logs nothing.
	Logger *slog.Logger
}

func (c FleetConfig) withDefaults() (FleetConfig, error) {
	problem := func(field, reason string) error {
		return &api.ArgumentError{Field: "ratelimit.FleetConfig." + field, Reason: reason}
	}
	switch {
	case c.Store == nil:
		return c, problem("Store", "is missing")
	case c.Requests < 0:
		return c, problem("Requests", "is negative")
	case c.Per < 0:
		return c, problem("Per", "is negative")
	case (c.Requests == 0) != (c.Per == 0):
		return c, problem("Per", "must be set if Requests is set, and only then")
	case c.Processes < 0:
		return c, problem("Processes", "is negative")
	case c.Timeout < 0:
		return c, problem("Timeout", "is negative")
	}
	c.Requests, c.Per = cmp.Or(c.Requests, defaults.Requests), cmp.Or(c.Per, defaults.Per)
	c.Processes, c.Timeout = cmp.Or(c.Processes, defaultProcesses), cmp.Or(c.Timeout, defaultTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
