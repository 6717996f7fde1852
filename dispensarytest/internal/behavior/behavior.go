package behavior

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// Set is how the platform reads the points that the API leaves open. Zero
// values are the defaults, but for the fields that defaultBehaviors sets.
type Set struct {
	Chosen map[string]string // the name of each point's variant; never written

	AlwaysOK        bool // 200 for created objects, too
	ErrorShape      ErrorShape
	Validation      int // status
	WrongState      int // status
	MissingScope    int // status
	PlainHTTP       int // status
	DropNulls       bool
	RefuseUnknown   bool // query parameters
	RefuseUnread    bool // body fields
	PageSize        int
	RefuseOversized bool
	RefuseBeyond    bool
	NewestFirst     bool
	AnyFilter       bool

	VendorBackorders bool // count as backorders

	Rotation           RefreshRotation
	EndOldAccess       bool
	RefuseUnknownToken bool
	KeepRefreshTokens  bool // they cannot be revoked
	RevokePair         bool // and not the whole consent
	ExpiresAsText      bool
	KeyNeeded          keyRule
	Pending            bool
	Limited            bool

	LinkNamesPractitioner bool // always

	ActivateIncomplete bool // drafts without a patient or recommendations

	CancelDrafts    bool
	EditCancelled   bool
	UpdateActivates bool
	CheckoutDrafts  bool
	InviteDrafts    bool
	DraftMakesEvent bool
	TypeNeeded      bool

	Probe         probeMode
	UnsignedProbe bool
	Unconditional bool
	SendTimeout   time.Duration
	RetrySchedule []time.Duration
	Resume        bool
	LogAttempts   bool
	ZeroStatus    bool
	PayloadName   string // of the envelope
	WrapAll       bool   // event data

	ClinicOnProducts bool // in webhooks
	EventsTie        bool // those of one object can have the same time
}

// Current is what is in force. It can be replaced at any time.
type Current struct{ p atomic.Pointer[Set] }

func (c *Current) Get() *Set { return c.p.Load() }

func (c *Current) Set(r Set) { c.p.Store(&r) }

// keyRule is which requests have to carry a clinic key.
type keyRule int

const (
	keyOptional keyRule = iota
	KeyForClinic
	KeyAlways
)

// Defaults is what every platform starts from.
var Defaults = sync.OnceValue(func() Set {
	r := Set{Chosen: make(map[string]string)}
	for _, s := range choiceTable() {
		s.Variants[0].apply(&r)
		r.Chosen[s.Name] = s.Variants[0].Name
	}
	return r
})

// Choose applies a variant by name.
func (r *Set) Choose(point, variant string) error {
	var names []string
	for _, s := range choiceTable() {
		if names = append(names, s.Name); s.Name != point {
			continue
		}
		var known []string
		for _, option := range s.Variants {
			if known = append(known, option.Name); option.Name == variant {
				option.apply(r)
				r.Chosen = maps.Clone(r.Chosen)
				r.Chosen[point] = variant
				return nil
			}
		}
		return fmt.Errorf("dispensarytest: %s has no variant %q, only %s", point, variant, strings.Join(known, ", "))
	}
	return errors.New("dispensarytest: " + closestmatch.Unknown("open point", point, slices.Sorted(slices.Values(names))))
}
