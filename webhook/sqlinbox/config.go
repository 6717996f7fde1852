package sqlinbox

import (
	"cmp"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Config configures an [Inbox]. Work.Handle and Seal are required.
type Config struct {
	// Work configures the handling of events.
	Work webhook.Work

	// Seal encrypts the bodies of events. [seal.InsecurePlaintext] does not encrypt.
	Seal seal.AEAD

	// The other fields are for tests.
	now              func() time.Time
	margin, patience time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Seal == nil {
		return c, &api.ArgumentError{Field: "sqlinbox.Config.Seal", Reason: "is required, because bodies contain patient data"}
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.margin = cmp.Or(c.margin, inboxkit.LeaseMargin)
	return c, nil
}

// ErrInUse: another Inbox, in this process or another one, has opened the database. It is safe
// to retry.
var ErrInUse = errors.New("sqlinbox: inbox is open in another process")
