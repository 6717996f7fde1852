package dispensarytest

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Tuning contains settings of a platform that few tests need. The zero value of each field
// keeps the default.
type Tuning struct {
	// Addr is the address to listen on, such as "127.0.0.1:8080". The default is a free port
	// of the loopback interface.
	Addr string

	// Seed determines ids and data. Platforms with the same seed have the same world. Tokens
	// and codes are always random, so a token of one platform is never valid on another. The
	// default is 1.
	Seed uint64

	// WorldSize adds records to the default world. The same seed and size give the same world,
	// id by id. Each clinic has its own users, see [Server.Users], and its own categories.
	// Every second clinic is invited to the restricted brands.
	WorldSize model.WorldSize

	// Integrations is the number of integrations of each clinic, at most 100. The platform
	// sends every event once for each, with the same event id and another integration_id.
	// The default is 1. API section: "Webhooks" 6.
	Integrations int

	// ClinicTokens makes the application one from before 2021-08-26. Its tokens represent the
	// clinic, and their resource owner has the type Clinic. API section: "Authentication" 4.
	ClinicTokens bool

	// TLSRequired rejects requests without TLS. Use it with [Server.Handler] behind your own
	// TLS server. [WithTLS] and [WithInMemory] imply it. API section: "Errors" 1.
	TLSRequired bool

	// JournalLimit is the number of requests that the journal stores. It drops the oldest
	// first. The default is 10,000.
	JournalLimit int

	// Bodies stores up to 16 KiB of each request and response body in the journal. See
	// [model.Request]. Bodies of the token endpoint contain no tokens, codes or client secret.
	// The default stores no bodies.
	Bodies bool

	// EventLimit is the number of events that the platform stores, and of deliveries besides
	// those still due. It drops the oldest first, and every event after 30 days. The default
	// is 50,000. The API documents only the 30 days, so the limit is an assumption.
	EventLimit int

	// DeliveryClient sends the webhooks, for example because it trusts a test certificate.
	// The platform's redirect rule and timeout still apply.
	DeliveryClient *http.Client

	// DeliveryTimeout is the longest wait for a response of the webhook endpoint. The
	// default depends on the behavior delivery-timeout: 2 seconds, which is an assumption.
	DeliveryTimeout time.Duration

	// ParallelDeliveries is the number of simultaneous deliveries, at most 1,000, for load
	// tests of a receiver. [Clock.Advance] does not wait for parallel deliveries, so use
	// [Webhooks.WaitDelivered]. The default is 1.
	ParallelDeliveries int
}

// WithTuning changes the settings that are not zero in t, so several options add up. If a
// value is invalid, it fails with an [*api.ArgumentError] with the name of the field.
func WithTuning(t Tuning) Option {
	return func(s *settings) error {
		if err := t.check(); err != nil {
			return err
		}
		set(&s.addr, t.Addr)
		set(&s.seed, t.Seed)
		set(&s.size, t.WorldSize)
		set(&s.integrations, t.Integrations)
		set(&s.clinicTokens, t.ClinicTokens)
		set(&s.requireTLS, t.TLSRequired)
		set(&s.journalLimit, t.JournalLimit)
		set(&s.keepBodies, t.Bodies)
		set(&s.eventLimit, t.EventLimit)
		set(&s.deliveryClient, t.DeliveryClient)
		set(&s.rules.SendTimeout, t.DeliveryTimeout)
		set(&s.parallel, t.ParallelDeliveries)
		return nil
	}
}

// set assigns value unless it is zero.
func set[T comparable](to *T, value T) {
	if value != *new(T) {
		*to = value
	}
}

// check returns an error for the first invalid field.
func (t *Tuning) check() error {
	size := t.WorldSize
	if t.Addr != "" {
		if _, _, err := net.SplitHostPort(t.Addr); err != nil {
			return invalid("Tuning.Addr", err)
		}
	}
	switch {
	case min(size.Clinics, size.Patients, size.Products, size.Plans, size.Orders) < 0:
		return wrong("Tuning.WorldSize", "has a negative number")
	case t.Integrations < 0 || t.Integrations > 100:
		return wrong("Tuning.Integrations", fmt.Sprintf("is %d, but must be from 1 to 100", t.Integrations))
	case t.JournalLimit < 0:
		return wrong("Tuning.JournalLimit", "is negative")
	case t.EventLimit < 0:
		return wrong("Tuning.EventLimit", "is negative")
	case t.DeliveryTimeout < 0:
		return wrong("Tuning.DeliveryTimeout", "is negative")
	case t.ParallelDeliveries < 0 || t.ParallelDeliveries > 1000:
		return wrong("Tuning.ParallelDeliveries", fmt.Sprintf("is %d, but must be from 1 to 1000", t.ParallelDeliveries))
	}
	return nil
}
