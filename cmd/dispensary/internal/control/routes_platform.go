package control

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func platformOperations() []Operation {
	return []Operation{
		read("settings.get", "/settings", "Returns URLs, credentials and accounts of the platform.",
			func(c *call) (Settings, error) { return settingsOf(c.fake, c.options), nil }),
		do("platform.reset", "POST", "/reset", "Restores the initial state: the generated data, or the snapshot or state file of the start. The clock keeps its time. A state file is overwritten.",
			func(c *call) (nothing, error) { c.fake.Reset(); return nothing{}, nil }),
	}
}

// clockState is the state of the clock.
type clockState struct {
	Now    time.Time
	Frozen bool
	Next   time.Time
}

// clockMove moves the clock by a duration or to a time.
type clockMove struct {
	By *time.Duration
	To time.Time
}

// maxAdvance is the longest move. The platform sends each delivery that becomes due during the
// move, so a typing error could take very long.
const maxAdvance = 10 * 365 * 24 * time.Hour

func clockOperations() []Operation {
	return []Operation{
		read("clock.get", "/clock", "Returns the platform's time, whether the clock is frozen, and the time of the next delivery.",
			func(c *call) (clockState, error) { return stateOf(c.fake.Clock), nil }),
		act("clock.advance", "POST", "/clock/advance",
			"Moves the clock forward by a duration such as 1h30m, or to a time. Responds after all deliveries that became due.", advanceClock),
	}
}

func stateOf(clock *dispensarytest.Clock) clockState {
	next, _ := clock.Next()
	return clockState{Now: clock.Now(), Frozen: clock.Frozen(), Next: next}
}

func advanceClock(c *call, in clockMove) (clockState, error) {
	clock := c.fake.Clock
	var by time.Duration
	switch {
	case (in.By == nil) == in.To.IsZero():
		return clockState{}, invalid("set either by or to")
	case in.By != nil:
		by = *in.By
	default:
		by = in.To.Sub(clock.Now())
	}
	if by < 0 || by > maxAdvance {
		return clockState{}, invalid("the clock can only move forward, at most ten years")
	}
	clock.Advance(by)
	return stateOf(clock), nil
}

// tokenRequest authorizes the application for a user without the browser.
type tokenRequest struct {
	User   string
	Scopes []string
}

// issuedToken is a pair of tokens. It omits the user's password.
type issuedToken struct {
	ID           string
	AccessToken  string
	RefreshToken string
	Scopes       []string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	UserID       string
}

// knownCredential is a token or code that the platform has issued.
type knownCredential struct {
	Kind      string
	Value     string
	TokenID   string
	UserID    string
	Scopes    []string
	ExpiresAt time.Time
	Rejection string
}

type accessTokenNamed struct{ AccessToken string }

type userNamed struct{ User string }

type scopesNamed struct{ Scopes []string }

func tokenOperations() []Operation {
	return []Operation{
		list("credentials.list", "/credentials", "credentials", "Lists all tokens and open authorization codes, with the reason if one is rejected.", listCredentials),
		act("tokens.issue", "POST", "/tokens", "Authorizes the application for a user without the browser, and returns the tokens. The user is an id or e-mail address, by default the first practitioner. The default scopes are those of the application.", issueToken),
		act("tokens.expire", "POST", "/tokens/expire", "Expires an access token now. Its refresh token stays valid.",
			func(c *call, in accessTokenNamed) (nothing, error) {
				return nothing{}, c.fake.Tokens.Expire(in.AccessToken)
			}),
		do("tokens.invalidate", "POST", "/tokens/invalidate", "Invalidates all tokens and refresh tokens. Users must authorize again.",
			func(c *call) (nothing, error) { c.fake.Tokens.InvalidateAll(); return nothing{}, nil }),
		act("tokens.revoke", "POST", "/tokens/revoke", "Revokes the authorization of one user: all access tokens, refresh tokens and codes. The user is an id or e-mail address, by default the first practitioner.",
			func(c *call, in userNamed) (nothing, error) {
				user, err := c.userLike(in.User)
				if err == nil {
					c.fake.Tokens.Revoke(user)
				}
				return nothing{}, err
			}),
		act("application.extend_scopes", "POST", "/application/scopes", "Adds scopes to the application. This invalidates all existing tokens.",
			func(c *call, in scopesNamed) (scopesNamed, error) {
				err := c.fake.Tokens.ExtendScopes(in.Scopes...)
				return scopesNamed{Scopes: c.fake.Application().Scopes}, err
			}),
	}
}

func listCredentials(c *call) []knownCredential {
	var rows []knownCredential
	for _, k := range c.fake.Tokens.Credentials() {
		rows = append(rows, knownCredential{
			Kind: k.Kind, Value: k.Value, TokenID: k.TokenID, UserID: k.User.ID, Scopes: k.Scopes, ExpiresAt: k.ExpiresAt, Rejection: k.Rejection,
		})
	}
	return rows
}

func issueToken(c *call, in tokenRequest) (issuedToken, error) {
	user, err := c.userLike(in.User)
	if err != nil {
		return issuedToken{}, err
	}
	t := c.fake.Tokens.Issue(user, in.Scopes...) // panics if a scope is unknown
	return issuedToken{
		ID: t.ID, AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, Scopes: t.Scopes,
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, UserID: t.User.ID,
	}, nil
}

// registration is a webhook endpoint with its event types.
type registration struct {
	URL   string
	Types []string
}

// outcome reports whether an event was delivered, with the reason if not.
type outcome struct {
	Delivered bool
	Reason    string
}

// defaultWait and maxWait limit how long a request waits for a delivery.
const (
	defaultWait = 5 * time.Second
	maxWait     = time.Minute
)

func webhookOperations() []Operation {
	deliveries := list("deliveries.list", "/deliveries", "deliveries", "Lists the stored deliveries with their attempts, in order of the events.", func(c *call) []model.Delivery { return c.fake.Webhooks.Deliveries() },
		"event_id", "event_type", "integration_id", "delivered", "stopped")
	wait := read("events.wait_delivered", "/events/{event_id}/delivery", "Waits until an event was delivered for every integration. Returns the reason if it was not.", waitDelivered)
	wait.Query = []Query{{Name: "timeout", Summary: "longest wait: default 5s, at most 1m"}}
	return []Operation{
		read("webhook.get", "/webhook", "Returns the registered endpoint, or null.", getWebhook),
		act("webhook.register", "PUT", "/webhook", "Registers the endpoint and replaces the previous one. The default is all event types.",
			func(c *call, in registration) (*model.Endpoint, error) {
				if err := c.fake.Webhooks.Register(in.URL, in.Types...); err != nil {
					return nil, err
				}
				return getWebhook(c)
			}),
		do("webhook.enable", "POST", "/webhook/enable", "Enables a disabled endpoint.",
			func(c *call) (*model.Endpoint, error) {
				if err := c.fake.Webhooks.Enable(); err != nil {
					return nil, &problem{status: 409, message: "no webhook endpoint is registered"}
				}
				return getWebhook(c)
			}),
		deliveries,
		list("skips.list", "/skips", "skips", "Lists events that were not sent, with the reason.", listSkips, "event_id"),
		wait,
	}
}

// skip is an event that was not sent.
type skip struct {
	EventID string
	Reason  string
}

func listSkips(c *call) (rows []skip) {
	for _, e := range c.fake.Events() {
		if e.NotSent != "" {
			rows = append(rows, skip{e.ID, e.NotSent})
		}
	}
	return rows
}

func getWebhook(c *call) (*model.Endpoint, error) {
	endpoint, registered := c.fake.Webhooks.Endpoint()
	if !registered {
		return nil, nil
	}
	return &endpoint, nil
}

func waitDelivered(c *call) (outcome, error) {
	limit, err := c.duration("timeout", defaultWait, maxWait)
	if err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	if err := c.fake.Webhooks.WaitDelivered(ctx, c.path("event_id")); err != nil {
		return outcome{Reason: plain(err)}, nil
	}
	return outcome{Delivered: true}, nil
}

// faultState is a fault with its number of uses.
type faultState struct {
	ID     string
	Fault  model.Fault
	Fired  int
	Active bool
}

func faultOperations() []Operation {
	return []Operation{
		list("faults.list", "/faults", "faults", "Lists the faults, with the number of times that each has fired.",
			func(c *call) []faultState {
				var rows []faultState
				for _, h := range c.fake.Faults() {
					rows = append(rows, faultOf(h))
				}
				return rows
			}),
		act("faults.set", "POST", "/faults", "Adds a fault: requests or deliveries fail from the next one on.",
			func(c *call, in model.Fault) (faultState, error) {
				if err := in.Validate(); err != nil {
					return faultState{}, err
				}
				return faultOf(c.fake.Fault(in)), nil
			}),
		do("faults.clear", "DELETE", "/faults", "Removes every fault.",
			func(c *call) (nothing, error) { c.fake.ClearFaults(); return nothing{}, nil }),
		do("faults.remove", "DELETE", "/faults/{fault_id}", "Removes one fault.",
			func(c *call) (faultState, error) {
				for _, h := range c.fake.Faults() {
					if h.ID == c.path("fault_id") {
						h.Remove()
						return faultOf(h), nil
					}
				}
				return faultState{}, &problem{status: 404, message: "no fault has the id " + c.path("fault_id")}
			}),
	}
}

func faultOf(h *dispensarytest.FaultHandle) faultState {
	return faultState{ID: h.ID, Fault: h.Fault, Fired: h.Fired(), Active: h.Active()}
}

// behaviorState is a behavior of the dispensary's API with the variant in use.
type behaviorState struct {
	Name       string
	Section    string
	Why        string
	Operations []string
	Variant    string
	Variants   []variantState
}

// variantState is a variant of a behavior.
type variantState struct {
	Name    string
	Meaning string
}

type variantNamed struct{ Variant string }

func behaviorOperations() []Operation {
	return []Operation{
		list("behaviors.list", "/behaviors", "behaviors", "Lists the undocumented behaviors of the API, with the variant in use and all variants.", listBehaviors),
		act("behaviors.set", "PUT", "/behaviors/{behavior}", "Changes the variant of an undocumented behavior of the API.",
			func(c *call, in variantNamed) (behaviorState, error) {
				if err := c.fake.SetBehavior(behavior.Variant(c.path("behavior") + "=" + in.Variant)); err != nil {
					return behaviorState{}, err
				}
				for _, s := range listBehaviors(c) {
					if s.Name == c.path("behavior") {
						return s, nil
					}
				}
				return behaviorState{}, nil // unreachable: SetBehavior accepted the name
			}),
	}
}

func listBehaviors(c *call) []behaviorState {
	var rows []behaviorState
	inForce := c.fake.Behaviors()
	for i, choice := range behavior.Choices() { // both are sorted by name
		row := behaviorState{Name: choice.Name, Section: choice.Section, Why: choice.Why, Operations: choice.Operations, Variant: inForce[i].Name()}
		for _, v := range choice.Variants {
			row.Variants = append(row.Variants, variantState{Name: v.Name(), Meaning: v.Meaning()})
		}
		rows = append(rows, row)
	}
	return rows
}
