package dispensarytest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// readings is how the platform reads the points that the API leaves open. Zero
// values are the defaults, but for the fields that defaultReadings sets.
type readings struct {
	chosen map[string]string // the name of each silence's reading; never written

	alwaysOK        bool // 200 for created objects, too
	errorShape      errorShape
	validation      int // status
	wrongState      int // status
	missingScope    int // status
	plainHTTP       int // status
	dropNulls       bool
	refuseUnknown   bool // query parameters
	refuseUnread    bool // body fields
	pageSize        int
	refuseOversized bool
	refuseBeyond    bool
	newestFirst     bool
	anyFilter       bool

	vendorBackorders bool // count as backorders

	rotation           RefreshRotation
	endOldAccess       bool
	refuseUnknownToken bool
	keepRefreshTokens  bool // they cannot be revoked
	revokePair         bool // and not the whole consent
	expiresAsText      bool
	keyNeeded          keyRule
	pending            bool
	limited            bool

	linkNamesPractitioner bool // always

	activateIncomplete bool // drafts without a patient or recommendations

	cancelDrafts    bool
	editCancelled   bool
	updateActivates bool
	checkoutDrafts  bool
	inviteDrafts    bool
	draftMakesEvent bool
	typeNeeded      bool

	probe         ProbeMode
	unsignedProbe bool
	unconditional bool
	sendTimeout   time.Duration
	retrySchedule []time.Duration
	resume        bool
	logAttempts   bool
	zeroStatus    bool
	payloadName   string // of the envelope
	wrapAll       bool   // event data

	clinicOnProducts bool // in webhooks
	eventsTie        bool // those of one object can have the same time
}

// keyRule is which requests have to carry a clinic key.
type keyRule int

const (
	keyOptional keyRule = iota
	keyForClinic
	keyAlways
)

// defaultReadings is what every platform starts from.
var defaultReadings = sync.OnceValue(func() readings {
	r := readings{chosen: make(map[string]string)}
	for _, s := range silences() {
		s.Readings[0].apply(&r)
		r.chosen[s.Name] = s.Readings[0].Name
	}
	return r
})

// choose applies a reading by name.
func (r *readings) choose(silence, reading string) error {
	var names []string
	for _, s := range silences() {
		if names = append(names, s.Name); s.Name != silence {
			continue
		}
		var known []string
		for _, option := range s.Readings {
			if known = append(known, option.Name); option.Name == reading {
				option.apply(r)
				r.chosen = maps.Clone(r.chosen)
				r.chosen[silence] = reading
				return nil
			}
		}
		return fmt.Errorf("dispensarytest: %s has no reading %q, only %s", silence, reading, strings.Join(known, ", "))
	}
	return errors.New("dispensarytest: " + unknownName("open point", silence, slices.Sorted(slices.Values(names))))
}

// WithReading sets how the platform reads a point that the API leaves open; see
// [Silences] for the names and the defaults.
func WithReading(silence, reading string) Option {
	return func(s *settings) error { return s.choose(silence, reading) }
}

// SetReading changes a reading while the platform runs, from the next request or
// delivery on. [SilenceIntegrationActivation] is read only when the platform
// starts.
func (s *Server) SetReading(silence, reading string) error {
	defer s.changes.Notify()
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := *s.reads()
	if err := changed.choose(silence, reading); err != nil {
		return err
	}
	s.read(changed)
	return nil
}

// Readings returns the reading that is in force for each silence, by name.
func (s *Server) Readings() map[string]string { return maps.Clone(s.reads().chosen) }

// reads is what is in force now.
func (s *Server) reads() *readings { return s.reading.Load() }

// read puts readings in force.
func (s *Server) read(r readings) {
	s.reading.Store(&r)
	s.tokens.mu.Lock()
	s.tokens.rotation = r.rotation
	s.tokens.mu.Unlock()
	switch {
	case r.limited && s.limit == nil:
		s.limit = s.Fault(Fault{Effect: RateLimit, Limit: 5000, Window: 5 * time.Minute})
	case !r.limited && s.limit != nil:
		s.limit.Remove()
		s.limit = nil
	}
}

// status is what a refusal's status is under these readings.
func (r *readings) status(p *problem) int {
	switch {
	case p.code != "", p.injected:
		return p.status
	case p.wrongState:
		return r.wrongState
	case p.status == http.StatusUnprocessableEntity:
		return r.validation
	case p.noScope:
		return r.missingScope
	case p.insecure:
		return r.plainHTTP
	}
	return p.status
}
