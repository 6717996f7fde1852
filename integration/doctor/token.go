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

// again is the fix for every fault that only the user can repair.
const again = "ask the user to connect again through the authorization page"

// checkStoredToken selects the user and checks the stored record.
func checkStoredToken(ctx context.Context, r *run) Row {
	const consequence = "calls for this user fail"
	user, err := r.user(ctx)
	if err != nil {
		return fail("cannot list users: "+reason(err), consequence, "check the log of the database")
	}
	if user == "" {
		return skip("no user is connected, or the store cannot list users and no user is given")
	}
	key := tokenstore.Key{Environment: r.environment(), User: user}
	r.record, err = r.config.Store.Load(ctx, key)
	switch {
	case errors.Is(err, tokenstore.ErrNoRecord):
		return fail("not stored for "+key.String(), consequence, again+", or choose another user")
	case errors.Is(err, tokenstore.ErrUnreadable):
		return fail("cannot be decrypted for "+key.String()+": "+reason(err), consequence,
			"put the key back into SealKeys, after the newest key; if the row was copied or changed, restore it or "+again)
	case err != nil:
		return fail("cannot be read for "+key.String()+": "+reason(err), consequence, "check the log of the database")
	case r.record.Token.Environment != r.environment():
		return fail("stored for "+key.String()+" but belongs to "+r.record.Token.Environment.String(), consequence,
			"store each environment's tokens under its own key, and "+again)
	}
	if problem := r.markedAs(); problem != "" {
		return fail(key.String()+": "+problem, consequence, again)
	}
	return pass("%s", r.age(key))
}

// user returns the user whose token is checked, or "" if there is none.
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

// markedAs returns the reason not to use the record, or "".
func (r *run) markedAs() string {
	token := r.record.Token
	if r.client != nil && r.client.ScopesAddedSince(token) {
		return "scopes were added to the application after the user connected, so the token is invalid"
	}
	if r.record.State != tokenstore.StateReauthorize {
		return ""
	}
	if text, known := map[tokenstore.Reason]string{
		tokenstore.ReasonInvalidGrant:   "the platform rejected the refresh token: the user or the application revoked it, or scopes were added to the application",
		tokenstore.ReasonScopesExtended: "scopes were added to the application after the user connected, so the token is invalid",
		tokenstore.ReasonOwnerChanged:   "a refresh returned a token of another platform account",
		tokenstore.ReasonDisconnecting:  "the user is being disconnected",
	}[r.record.Reason]; known {
		return text
	}
	return "the user must authorize again"
}

// age describes the age of the authorization and the remaining validity of the token.
func (r *run) age(key tokenstore.Key) string {
	text, now := key.String(), r.config.Now()
	if at := r.record.Token.ConnectedAt; !at.IsZero() {
		text += ", connected " + days(now.Sub(at)) + " ago"
	}
	if end := r.record.Token.ExpiresAt; end.After(now) {
		text += ", valid for " + days(end.Sub(now))
	} else if !end.IsZero() {
		text += ", expired " + days(now.Sub(end)) + " ago"
	}
	return text
}

func checkOwner(_ context.Context, r *run) Row {
	const consequence = "calls may act for the wrong account"
	owner := r.record.Token.ResourceOwner
	if owner.Type == "" {
		return warn("missing from the platform's token response", consequence, again)
	}
	return pass("acts for a %s of %s", name(owner.Type), r.record.Token.Environment)
}

// name returns text if it looks like a name. A longer or other text could contain a secret.
func name(text string) string {
	if len(text) > 64 || strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != ':'
	}) {
		return "(unexpected name)"
	}
	return text
}

func checkScopes(_ context.Context, r *run) Row {
	granted := r.record.Token.Access()
	switch {
	case len(r.config.Operations) == 0:
		return skip("no operations are given")
	case granted.Scope == "":
		return warn("missing from the platform's token response", "calls may be rejected with 403", "compare the scopes of the application in the developer dashboard")
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
		return pass("all granted for %s", strings.Join(r.config.Operations, ", "))
	}
	slices.Sort(scopes)
	var texts []string
	for _, scope := range scopes {
		texts = append(texts, scope+" (for "+strings.Join(missing[scope], ", ")+")")
	}
	return fail("not granted: "+strings.Join(texts, "; "), "these calls are rejected with 403",
		"add the scopes to the application in the developer dashboard and to oauth.Config.Scopes; this invalidates all current tokens, so ask all users to connect again")
}

// checkRefresh refreshes the token as a call would, and waits until the new pair is stored.
func checkRefresh(ctx context.Context, r *run) Row {
	const consequence = "calls for this user fail once the access token expires, within two hours"
	token := r.record.Token
	r.access = token.Access()
	ended := !token.ExpiresAt.IsZero() && !token.ExpiresAt.After(r.config.Now())
	switch {
	case r.config.NoRefresh && ended:
		return skip("the token has expired, and refreshing a production token requires --production")
	case r.config.NoRefresh:
		return pass("not tried, because refreshing a production token requires --production")
	case token.RefreshToken.IsZero():
		return fail("no refresh token is stored", consequence, "store the whole token after each refresh, as tokens.Connections does, and "+again)
	}
	accepted := !ended && r.accepted(ctx, r.access) == nil
	fresh, err := r.renew(ctx)
	switch {
	case errors.Is(err, errPending):
		return fail("the new token pair could not be stored", "the user may have to authorize again, because the platform may have invalidated the old pair", "repair the store, and "+again)
	case isRejected(err) && accepted:
		return fail("the platform rejects the refresh token but accepts the access token, so the pair was replaced", consequence,
			"find a second program, an old replica or a restored backup that refreshes with another store; then "+again)
	case isRejected(err):
		return fail("the platform rejects both tokens: the user or the application revoked them, or scopes were added to the application",
			"calls for this user fail", again)
	case err != nil:
		return fail("the token endpoint: "+reason(err), consequence, "wait and run this again")
	}
	r.access = fresh
	if err := r.accepted(ctx, fresh); errors.Is(err, api.ErrUnauthorized) {
		return fail("the token endpoint issues a new token, but the API rejects it", "calls for this user fail", "check the platform's status page; compare the two URLs of the site")
	}
	return pass("stored a new token pair, and the API accepts it")
}

// isRejected reports whether the platform rejects the refresh token. A first rejection does not
// mark the user, so it has no [api.ErrReauthorize].
func isRejected(err error) bool {
	var response *api.Error
	return errors.Is(err, api.ErrReauthorize) || errors.As(err, &response) && response.Code == "invalid_grant"
}

// errPending: the new pair could not be stored in time.
var errPending = errors.New("doctor: the new token pair could not be stored")

// renew refreshes the token. It returns only after the new pair is stored, or after 1 minute.
func (r *run) renew(ctx context.Context) (api.AccessToken, error) {
	conns, err := tokens.NewConnections(tokens.Config{Client: r.client, Store: r.config.Store, LeaseTTL: max(time.Second, r.config.LeaseTTL)})
	if err != nil {
		return api.AccessToken{}, err
	}
	fresh, err := conns.TokenSource(r.record.Key.User).Refresh(ctx, r.record.Token.Access())
	// A pair that is not stored is lost with this process, so the end of ctx is ignored.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if conns.Close(within) != nil {
		return api.AccessToken{}, errPending
	}
	return fresh, err
}

// accepted reads one row of the delivery log with a token. It returns the error of the call.
func (r *run) accepted(ctx context.Context, token api.AccessToken) error {
	client, err := r.caller(token)
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	_, err = client.Events.Deliveries.List(events.DeliveryListOptions{}).PageSize(1).Page(ctx)
	return err
}
