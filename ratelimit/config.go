package ratelimit

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
)

// Defaults of [FleetConfig].
const (
	defaultProcesses = 10
	defaultTimeout   = time.Second
)

// FleetConfig configures a [Fleet]. Store is required.
type FleetConfig struct {
	// Store counts the requests of all processes.
	Store Store

	// Name is the name of the limit. Fleets with the same store and name share it. Each
	// application has its own limit in each environment. An empty name is valid.
	Name string

	// Requests is the maximum number of requests of all processes in any period of length Per,
	// measured at the platform. If both are 0, the limit is 5,000 requests in 5 minutes. All
	// processes must have the same values.
	Requests int
	Per      time.Duration

	// Processes is the maximum number of processes. While the store is unavailable, each
	// process limits itself to Requests / Processes, but at least 1. 0 means 10.
	Processes int

	// Timeout is the maximum response time of the store. After it, the store counts as
	// unavailable. 0 means 1 second. A request may start up to Timeout after the store has
	// recorded it. The periods of the store are therefore longer than Per by Timeout, and by 1
	// second for the transfer to the platform.
	Timeout time.Duration

	// Logger logs when the store becomes unavailable and available again. Nil logs nothing.
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
