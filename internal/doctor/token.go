package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// again is the fix of whatever only the user can fix.
const again = "let the user connect again, through the authorization page"

// storedToken finds the user, and looks at what is stored.
func (r *run) storedToken(ctx context.Context) Row {
	const consequence = "calls for this user fail"
	user, err := r.user(ctx)
	if err != nil {
		return fail("the users cannot be listed: "+reason(err), consequence, "look at the log of the database")
	}
	if user == "" {
		return skip("no user is connected; or the store cannot list users, and none is named")
	}
	key := tokenstore.Key{Environment: r.environment(), User: user}
	r.record, err = r.config.Store.Load(ctx, key)
	switch {
	case errors.Is(err, tokenstore.ErrNoRecord):
		return fail("nothing is stored for "+key.String(), consequence, again+"; or name another user")
	case errors.Is(err, tokenstore.ErrUnreadable):
		return fail("the token of "+key.String()+" does not open: "+reason(err), consequence,
			"put the key back into SealKeys, behind the newest; a row that was copied or changed has to be restored, or "+again)
	case err != nil:
		return fail("the token of "+key.String()+" cannot be read: "+reason(err), consequence, "look at the log of the database")
	case r.record.Token.Environment != r.environment():
		return fail("the token of "+key.String()+" is one of "+r.record.Token.Environment.String(), consequence,
			"keep each environment's tokens under its own key, and "+again)
	}
	if problem := r.markedAs(); problem != "" {
		return fail(key.String()+": "+problem, consequence, again)
	}
	return pass("%s", r.age(key))
}

// user returns whose token is looked at; empty is none.
func (r *run) user(ctx context.Context) (string, error) {
	if r.config.User != "" {
		return r.config.User, nil
	}
	listed, err := r.config.Store.List(ctx, tokenstore.Listing{Environment: r.environment(), State: tokenstore.StateActive, Limit: 1})
	if err != nil || len(listed) == 0 {
		return "", err
	}
	return listed[0].Key.User, nil
}

// markedAs says why the record must not be used; empty if it may be.
func (r *run) markedAs() string {
	token := r.record.Token
	if r.client != nil && r.client.ScopesAddedSince(token) {
		return "scopes were added to the application since the user connected, which ends the token"
	}
	if r.record.State != tokenstore.StateReauthorize {
		return ""
	}
	if text, known := map[tokenstore.Reason]string{
		tokenstore.ReasonInvalidGrant:   "the platform has refused the refresh token: the user or the application revoked it, or scopes were added to the application",
		tokenstore.ReasonScopesExtended: "scopes were added to the application since the user connected, which ends the token",
		tokenstore.ReasonOwnerChanged:   "a refresh returned a token of another account of the platform",
		tokenstore.ReasonDisconnecting:  "the user is being disconnected",
	}[r.record.Reason]; known {
		return text
	}
	return "the user has to authorize again"
}

// age says how old the authorization is, and for how long the token is good.
func (r *run) age(key tokenstore.Key) string {
	text, now := key.String(), r.config.Now()
	if at := r.record.Token.ConnectedAt; !at.IsZero() {
		text += ", connected " + days(now.Sub(at)) + " ago"
	}
	if end := r.record.Token.ExpiresAt; end.After(now) {
		text += ", good for " + days(end.Sub(now))
	} else if !end.IsZero() {
		text += ", ended " + days(now.Sub(end)) + " ago"
	}
	return text
}

func (r *run) owner(context.Context) Row {
	const consequence = "calls act for an account that was not meant"
	owner := r.record.Token.ResourceOwner
	if owner.Type == "" {
		return warn("the platform did not say whom the token acts for", consequence, again)
	}
	return pass("it acts for a %s of %s", name(owner.Type), r.record.Token.Environment)
}

// name keeps what the platform calls something from holding anything else.
func name(text string) string {
	if len(text) > 64 || strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != ':'
	}) {
		return "(a name of another form)"
	}
	return text
}

func (r *run) scopes(context.Context) Row {
	granted := r.record.Token.Access()
	switch {
	case len(r.config.Operations) == 0:
		return skip("no operations are named")
	case granted.Scope == "":
		return warn("the platform did not say which scopes the token has", "a call may be refused with 403", "compare the scopes of the application in the dashboard")
	}
	missing := map[string][]string{} // operations by scope
	var scopes []string
	for _, name := range r.config.Operations {
		for scope := range strings.FieldsSeq(operationOf(name).Scope) {
			if granted.HasScope(scope) {
				continue
			}
			if missing[scope] == nil {
				scopes = append(scopes, scope)
			}
			missing[scope] = append(missing[scope], name)
		}
	}
	if len(scopes) == 0 {
		return pass("all scopes are granted for %s", strings.Join(r.config.Operations, ", "))
	}
	slices.Sort(scopes)
	var texts []string
	for _, scope := range scopes {
		texts = append(texts, scope+" (for "+strings.Join(missing[scope], ", ")+")")
	}
	return fail("not granted: "+strings.Join(texts, "; "), "these calls are refused with 403",
		"add the scopes to the application in the dashboard, which ends all tokens of today, put them into oauth.Config.Scopes, and let all users connect again")
}

// refresh renews the token as a call would, and waits until the new pair is stored.
func (r *run) refresh(ctx context.Context) Row {
	const consequence = "calls for this user fail once the access token ends, within two hours"
	token := r.record.Token
	r.access = token.Access()
	ended := !token.ExpiresAt.IsZero() && !token.ExpiresAt.After(r.config.Now())
	switch {
	case r.config.NoRefresh && ended:
		return skip("the token has ended, and Config.NoRefresh leaves it as it is")
	case r.config.NoRefresh:
		return pass("not tried: Config.NoRefresh leaves the token as it is")
	case token.RefreshToken.IsZero():
		return fail("no refresh token is stored", consequence, "store the whole token after each refresh, as tokens.Connections does, and "+again)
	}
	accepted := !ended && r.accepted(ctx, r.access) == nil
	fresh, err := r.renew(ctx)
	switch {
	case errors.Is(err, errPending):
		return fail("the store does not take the new pair", "the user is lost: the platform may have forgotten the old pair", "fix the store, and "+again)
	case isRejected(err) && accepted:
		return fail("the refresh token is refused, and the access token is good: the pair was replaced", consequence,
			"look for a second program, an old replica or a restored backup that refreshes beside this store; then "+again)
	case isRejected(err):
		return fail("the platform refuses both tokens: the user or the application revoked them, or scopes were added to the application",
			"calls for this user fail", again)
	case err != nil:
		return fail("the token endpoint: "+reason(err), consequence, "wait and run this again")
	}
	r.access = fresh
	if err := r.accepted(ctx, fresh); errors.Is(err, api.ErrUnauthorized) {
		return fail("the token endpoint gives a new token, and the API refuses it", "calls for this user fail", "look at the platform's status page; compare the two addresses of the site")
	}
	return pass("a new pair is stored, and the API takes it")
}

// isRejected reports whether the platform does not accept the refresh token. A first rejection
// does not mark the user.
func isRejected(err error) bool {
	var answer *api.Error
	return errors.Is(err, api.ErrReauthorize) || errors.As(err, &answer) && answer.Code == "invalid_grant"
}

// errPending says that a new pair could not be stored.
var errPending = errors.New("doctor: the store does not take a new pair")

// renew refreshes the token. It returns when nothing is under way any more.
func (r *run) renew(ctx context.Context) (api.AccessToken, error) {
	conns, err := tokens.NewConnections(tokens.Config{Client: r.client, Store: r.config.Store, LeaseTTL: max(time.Second, r.config.LeaseTTL)})
	if err != nil {
		return api.AccessToken{}, err
	}
	fresh, err := conns.TokenSource(r.record.Key.User).Refresh(ctx, r.record.Token.Access())
	// A pair that is not stored is lost with this process: nothing breaks this off.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if conns.Close(within) != nil {
		return api.AccessToken{}, errPending
	}
	return fresh, err
}

// accepted makes a call that reads one row of the delivery log.
func (r *run) accepted(ctx context.Context, token api.AccessToken) error {
	client, err := r.caller(token)
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	_, err = client.Events.Deliveries.List(events.DeliveryListOptions{}).PageSize(1).Page(ctx)
	return err
}
