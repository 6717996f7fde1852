package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/rotation"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// away is the fix of a database that does not answer.
const away = "look at address, password and network of the database, and at its log"

// createTables is the fix of an incomplete schema.
const createTables = "start the program once as a database user who may create tables"

// isIncomplete reports whether err means that a database lacks a table or a column.
func isIncomplete(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*api.SchemaError))
}

func (r *run) store(ctx context.Context) Row {
	const consequence = "no token can be read or refreshed: no call works beyond what is in memory"
	if r.config.StoreErr != nil && !isIncomplete(r.config.StoreErr) {
		return fail(reason(r.config.StoreErr), consequence, away)
	}
	if r.config.Store == nil && r.config.StoreErr == nil {
		return skip("no token store is configured")
	}
	if r.config.StoreErr == nil {
		_, err := r.config.Store.Load(ctx, tokenstore.Key{Environment: r.environment(), User: madeUp()})
		if err != nil && !errors.Is(err, tokenstore.ErrNoRecord) {
			return fail(reason(err), consequence, away)
		}
		if err := r.config.Store.CheckWrite(ctx); err != nil {
			return fail("rejects writes: "+reason(err), "refreshed tokens are not stored: users have to authorize again after the next restart",
				"connect to the primary server, and check its disk and the rights of its user")
		}
	}
	return pass("it answers and accepts writes")
}

func (r *run) storeSchema(context.Context) Row {
	if r.config.StoreErr != nil {
		return fail("a table or a column is missing", "tokens cannot be read or written", createTables)
	}
	return pass("all tables are there")
}

func (r *run) storeSealed(context.Context) Row {
	if store, ok := r.config.Store.(interface{ Encrypts() bool }); ok && store.Encrypts() {
		return pass("tokens are kept sealed")
	}
	if _, memory := r.config.Store.(*tokenstore.MemoryStore); memory {
		if r.environment().IsSandbox() {
			return pass("tokens are in memory only")
		}
		return fail("tokens are in memory only", "when the process ends, all users have to authorize again", "use package sqlstore, with tokenstore.Sealed around it")
	}
	return warn("tokens reach the store in clear", "who reads the database, or a backup, can act for all users",
		"put tokenstore.Sealed around the store, and let all users connect again; a store that seals by itself may stay as it is")
}

// mostUsers bounds how many users are counted.
const mostUsers = 1000

func (r *run) storeUsers(ctx context.Context) Row {
	listed, err := r.config.Store.List(ctx, tokenstore.Listing{Environment: r.environment(), State: tokenstore.StateReauthorize, Limit: mostUsers})
	switch {
	case err != nil:
		return fail(reason(err), "users who have to authorize again are not known", away)
	case len(listed) == 0:
		return pass("no user has to authorize again")
	}
	reasons := map[tokenstore.Reason]int{}
	for _, record := range listed {
		reasons[record.Reason]++
	}
	return warn(fmt.Sprintf("%d users have to authorize again: %v", len(listed), reasons), "calls for them fail until they do",
		"ask them to connect again; where most are invalid_grant, look whether scopes were added to the application")
}

// storeLease takes the lease on the record, which a refresh has for a moment only.
func (r *run) storeLease(ctx context.Context) Row {
	ctx, cancel := context.WithTimeout(ctx, r.config.LeaseTTL+checkTimeout)
	defer cancel()
	start, pause := time.Now(), time.NewTicker(r.config.LeaseTTL/20+1)
	defer pause.Stop()
	owner, version := madeUp(), r.record.Version
	for {
		lease := tokenstore.Lease{Key: r.record.Key, Version: version, Owner: owner}
		_, err := r.config.Store.Lease(ctx, lease, time.Second)
		switch {
		case err == nil:
			if err := r.config.Store.Release(ctx, lease); err != nil {
				return fail(reason(err), "the record is leased until its end", away)
			}
			return pass("no refresh hangs")
		case errors.Is(err, tokenstore.ErrConflict):
			return pass("the record was written just now")
		case !errors.Is(err, tokenstore.ErrLeased):
			return fail(reason(err), "no token can be refreshed", away)
		case time.Since(start) > r.config.LeaseTTL:
			return fail("the lease on the record is held for longer than leases last, and no token was written", "the token of this user is not refreshed",
				"look for a replica that hangs in a refresh, or whose LeaseTTL is longer; end it, and the lease runs out")
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fail("the lease on the record is held", "the token of this user is not refreshed meanwhile", "run this again; should it stay so, look for a replica that hangs")
		}
	}
}

func (r *run) inbox(ctx context.Context) Row {
	const consequence = "events are refused with 503, and after 24 hours the platform switches the endpoint off"
	if r.config.InboxErr != nil && !isIncomplete(r.config.InboxErr) {
		return fail(reason(r.config.InboxErr), consequence, away)
	}
	if r.config.Inbox == nil && r.config.InboxErr == nil {
		return skip("no inbox is configured")
	}
	if r.config.InboxErr == nil {
		var err error
		if r.stats, err = r.config.Inbox.Stats(ctx); err != nil {
			return fail(reason(err), consequence, away)
		}
	}
	return pass("it answers")
}

func (r *run) inboxSchema(context.Context) Row {
	if r.config.InboxErr != nil {
		return fail("a table or a column is missing", "events cannot be stored", createTables)
	}
	return pass("all tables are there")
}

// oldestWaiting is the longest time that an event may wait in the inbox.
const oldestWaiting = 15 * time.Minute

func (r *run) inboxWaiting(context.Context) Row {
	if r.stats.Oldest.IsZero() {
		return pass("nothing waits")
	}
	age := r.config.Now().Sub(r.stats.Oldest)
	seen := fmt.Sprintf("%d wait, %d are being handled, the oldest for %s", r.stats.Waiting, r.stats.Running, days(age))
	if age > oldestWaiting {
		return warn(seen, "what happened on the platform shows late, and events of the same object wait behind it",
			"look in the log for the reason that handlers fail; see whether any process handles events, and whether Work.Workers are enough")
	}
	return pass("%s", seen)
}

func (r *run) inboxDead(context.Context) Row {
	if r.stats.Dead == 0 {
		return pass("none")
	}
	return warn(fmt.Sprintf("%d", r.stats.Dead), "these events are acknowledged and not handled: the platform does not send them again",
		"look at their reasons on the page of package admin, fix the handler, and replay them")
}

// sample is how many events are opened.
const sample = 20

func (r *run) inboxSealed(ctx context.Context) Row {
	inbox, ok := r.config.Inbox.(engine.Engine)
	if !ok {
		return skip("the inbox does not open events")
	}
	const consequence = "events are acknowledged and cannot be handled"
	list, err := inbox.List(ctx, engine.Filter{}, engine.Position{}, sample)
	if err != nil {
		return fail(reason(err), consequence, away)
	}
	for _, event := range list {
		if _, err := inbox.Open(ctx, event.Key); err != nil && !errors.Is(err, engine.ErrNotStored) {
			return fail("a body does not open: "+reason(err), consequence, "put the key back into SealKeys, behind the newest, and replay the dead letters")
		}
	}
	return pass("%d of what it holds were opened", len(list))
}

// missedIntervals is the number of intervals without a run after which nothing reconciles.
const missedIntervals = 3

// reconcile checks that a replica looks for missed webhooks.
func (r *run) reconcile(ctx context.Context) Row {
	const consequence = "events that the platform cannot deliver are lost after 30 days"
	if len(r.config.Webhook.Secrets) == 0 {
		return skip("no webhook secret is configured, so no webhooks are received")
	}
	inbox, ok := r.config.Inbox.(interface {
		ReadCheckpoint(ctx context.Context, name string) (state []byte, err error)
	})
	if !ok {
		return skip("the inbox has no checkpoints to read")
	}
	var progress rotation.Rotation
	state, err := inbox.ReadCheckpoint(ctx, rotation.Name(r.environment().String()))
	if err == nil {
		err = progress.Decode(state)
	}
	if err != nil {
		return fail(reason(err), consequence, away)
	}
	age := r.config.Now().Sub(progress.Taken)
	switch {
	case progress.Taken.IsZero():
		return fail("no replica has ever looked for missed webhooks", consequence,
			"start the program: Run of package integration reconciles, unless Setup.DisableReconcile is true; without that package, run reconcile.Clinics")
	case age > missedIntervals*r.config.ReconcileEvery:
		return fail("no replica has looked for missed webhooks for "+days(age), consequence,
			"look for the reason in the log of the program, whose lines say that webhook events are not reconciled")
	}
	return pass("the last pass over all clinics began %s ago", days(r.config.Now().Sub(progress.Began)))
}
