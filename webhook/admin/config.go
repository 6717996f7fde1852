package admin

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Config is what a [Handler] is made of. Engine is required; the pages of what is left
// out are not there.
type Config struct {
	// Engine holds the events: the inbox of the webhook handler.
	Engine engine.Engine

	// Name is the name of the system or tenant, such as "us/sandbox". Every page and its title
	// show it.
	Name string

	// Production marks every page as one of a production system.
	Production bool

	// Location is the time zone of midnight, of times in fields, and of the times that a pointer
	// over a time shows. Nil means UTC.
	Location *time.Location

	// Activity is the activity that the overview shows. Its AttemptEnd must be called for the
	// attempts of Engine. Nil shows none.
	Activity *Activity

	// Alarms are those of the webhook handlers, one or one for each environment, by the
	// names that the page has for them: see [webhook.Alarm]. The page shows what they
	// know, which is what this process has seen.
	Alarms map[string]*webhook.Alarm

	// Reconcilers are the Stats of [reconcile.Clinics] of the environments, by the names that
	// the page shows. The page shows their state as far as this process knows it, and their
	// last runs: see [Handler.RunEnd].
	Reconcilers map[string]func() reconcile.ClinicsStats

	// Accounts are the accounts of the program's users: an [*accounts.Accounts].
	Accounts interface {
		List(ctx context.Context, options accounts.ListOptions) iter.Seq2[accounts.Account, error]
		PendingCommits() int
		Paused() (until time.Time, paused bool)
	}

	// Observer is called with what people do.
	Observer Observer

	// TrustedOrigins are the origins of this page if a proxy changes the Host header, such
	// as "https://ops.example". A form from a trusted origin is accepted. Without a proxy
	// none is needed, and it is better to let the proxy pass the Host on.
	TrustedOrigins []string

	// Hosts are the Host headers that the page accepts, such as "ops.example" or
	// "10.0.0.5:8443", without the port if it is the default of the scheme. Other requests get
	// 421. Without a login, it keeps out a page of another site whose name was made to resolve
	// to this server (DNS rebinding). Empty accepts every host.
	Hosts []string

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Observer is called with what people do on the pages. The request is theirs, so that
// the program knows who it was: its context has what the login has put there.
type Observer struct {
	// BodyOpened is called before the body of an event is shown, with the error it died
	// with. An error keeps it closed. If BodyOpened is nil, no body can be opened.
	BodyOpened func(r *http.Request, key webhook.Key) error

	// Changed is called after a request has changed events, also if it failed. Nil means no call.
	Changed func(r *http.Request, change Change)
}

// Action is a change of events.
type Action string

// The actions.
const (
	ActionReplay    Action = "replay"     // see [engine.Engine.Replay]
	ActionDiscard   Action = "discard"    // see [engine.Engine.Discard]
	ActionHandleNow Action = "handle_now" // see [engine.Engine.HandleNow]
)

// Change is the result of one request that changes events.
type Change struct {
	Action Action

	// Filter is what was asked for. Many events are changed by several requests with
	// the same filter.
	Filter engine.Filter

	// Count is how many were changed.
	Count int

	// Err is why there were no more, [context.DeadlineExceeded] if more are left; nil
	// if it is done.
	Err error
}

func (c Config) withDefaults() (Config, error) {
	if c.Engine == nil {
		return c, &api.ArgumentError{Field: "admin.Config.Engine", Reason: "is missing"}
	}
	for _, host := range c.Hosts {
		if u, err := url.Parse("//" + host); err != nil || host == "" || u.Host != host {
			return c, &api.ArgumentError{Field: "admin.Config.Hosts", Reason: fmt.Sprintf("contains %q, which is no host such as ops.example", host)}
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Location == nil {
		c.Location = time.UTC
	}
	return c, nil
}
