package ratelimittest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// Server is what keeps the records of a store, and can be killed. Its functions are called one
// at a time, and not during an exchange.
type Server struct {
	Store ratelimit.Store

	// Kill ends the server as a crash does, or at least all connections to it, and Start
	// starts it again, with the records that Save has saved, if it has any, or with none.
	Kill, Start func()

	// Save saves the records that there are. It is nil where a server that was killed has none.
	Save func()
}

// RunKilled tests that eight processes keep to a limit while the server of their store is killed
// in the middle of an exchange, and started again. Open returns one that runs and has no
// records; it is called more than once.
func RunKilled(t *testing.T, open func(*testing.T) Server) {
	for name, one := range map[string]killing{
		"ForAMinute":       {times: 1, outage: time.Minute},
		"ForTwentyMinutes": {times: 1, outage: 20 * time.Minute},
		"AgainAndAgain":    {times: 20, every: 10 * time.Second},
		"OldRecords":       {times: 5, every: time.Minute, old: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := open(t)
			if one.old && server.Save == nil {
				t.Skip("the server comes back with nothing")
			}
			testKilled(t, server, one)
		})
	}
}

// killing is when a server is killed: so many times from the third minute on, so far apart, and
// for how long. Old has it come back with records of the second minute.
type killing struct {
	times         int
	every, outage time.Duration
	old           bool
}

const firstKill = 3 * time.Minute

func testKilled(t *testing.T, server Server, k killing) {
	outside := runOutside(t, server.Store)
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, outside)
		killed := 0
		kill := func() {
			killed++
			outside.do(server.Kill)
			time.AfterFunc(k.outage, func() {
				outside.do(server.Start)
				f.store.setBack()
			})
		}
		if k.old {
			time.AfterFunc(firstKill-time.Minute, func() { outside.do(server.Save) })
		}
		for i := range k.times {
			time.AfterFunc(firstKill+time.Duration(i)*k.every, func() { f.store.duringNext(kill) })
		}
		f.run(firstKill + time.Duration(k.times)*k.every + k.outage + 7*time.Minute)
		assert.Positive(t, killed)
		f.checkLimit()
		f.checkReturn()
		waits := f.waits[api.PriorityInteractive]
		slices.Sort(waits)
		assert.Less(t, waits[len(waits)*9/10], 50*time.Millisecond, "p90 of the waits of people")
		assert.Less(t, f.gap[api.PriorityInteractive], time.Minute, "people go on")
	})
}
