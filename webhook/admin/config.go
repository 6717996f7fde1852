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

// Config configures a [Handler]. Engine is required. The handler leaves out the pages of unset
// fields.
type Config struct {
	// Engine is the inbox of the webhook handler. It stores the events.
	Engine engine.Engine

	// Name is the name of the system or tenant, such as "us/sandbox". Every page and its title
	// show it. Empty shows no name.
	Name string

	// Production marks every page as a page of a production system.
	Production bool

	// Location is the time zone of all times on the pages, of midnight and of times in fields. Nil
	// means UTC.
	Location *time.Location

	// Activity counts the attempts for the overview. Its AttemptEnd must be called for the
	// attempts of Engine. Nil shows no activity.
	Activity *Activity

	// Alarms are the alarms of the webhook handlers, by the names to show: one alarm, or one
	// per environment (see [webhook.Alarm]). The page shows their state and the name of a
	// failing tenant. The state covers this process only.
	Alarms map[string]*webhook.Alarm

	// Reconcilers are the Stats of [reconcile.Clinics] by the names of their environments to
	// show. The page shows their state as known to this process, and their last runs (see
	// [Handler.RunEnd]).
	Reconcilers map[string]func() reconcile.ClinicsStats

	// Accounts are the accounts of the program's users: an [*accounts.Accounts]. Nil shows no
	// accounts.
	Accounts interface {
		List(ctx context.Context, options accounts.ListOptions) iter.Seq2[accounts.Account, error]
		PendingCommits() int
		Paused() (until time.Time, paused bool)
	}

	// Observer is called for actions of operators.
	Observer Observer

	// ReadOnly reports whether the user of a request may only read. The pages then have no actions,
	// and reject dry runs (GET bulk, below the path of the page) and changes (POST bulk) with status
	// 403. A test that replays an event calls the Replay of the engine. Bodies are not hidden:
	// Observer.BodyOpened gets the same request and decides about them. Nil means that every user
	// may change events.
	ReadOnly func(r *http.Request) bool

	// TrustedOrigins are the origins of this page if a proxy changes the Host header, such as
	// "https://ops.example". The page accepts a form from a trusted origin. Without a proxy,
	// leave it empty. If you have one, prefer to configure it to forward the original Host.
	TrustedOrigins []string

	// Hosts are the Host headers to accept, such as "ops.example" or "10.0.0.5:8443", without
	// the port if it is the default of the scheme. Other requests get status 421. If the page
	// has no login, this protects it from DNS rebinding, in which the host name of another
	// site resolves to this server. Empty accepts every host.
	Hosts []string

	// Now returns the current time. Nil means [time.Now].
	Now func() time.Time
}

// Observer is called for actions of operators. It gets the operator's request, so your program
// can identify the user by the values that the login has stored in its context.
type Observer struct {
	// BodyOpened is called before the body of an event and the error of its last attempt are
	// shown. If it returns an error, they stay hidden. If BodyOpened is nil, no body can be
	// opened.
	BodyOpened func(r *http.Request, key webhook.Key) error

	// Changed is called after a request has changed events, even if the change failed. Nil
	// means no call.
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

	// Filter selects the events to change. A change of many events takes several requests with
	// the same filter.
	Filter engine.Filter

	// Count is the number of events changed by this request.
	Count int

	// Err is the error that ended the request. It is [context.DeadlineExceeded] if events are
	// left to change, and nil if all were changed.
	Err error
}

func (c Config) withDefaults() (Config, error) {
	if c.Engine == nil {
		return c, &api.ArgumentError{Field: "admin.Config.Engine", Reason: "is required"}
	}
	for _, host := range c.Hosts {
		if u, err := url.Parse("//" + host); err != nil || host == "" || u.Host != host {
			return c, &api.ArgumentError{Field: "admin.Config.Hosts", Reason: fmt.Sprintf("contains %q: use a host such as ops.example", host)}
		}
	}
	if c.ReadOnly == nil {
		c.ReadOnly = func(*http.Request) bool { return false }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Location == nil {
		c.Location = time.UTC
	}
	return c, nil
}
