package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// away is the fix for an unavailable database.
const away = "check the URL, password, network and log of the database"

// createTables is the fix for an incomplete schema.
const createTables = "start this release of the program once as a database user that may create tables"

// isIncomplete reports whether err means that a database lacks tables or has those of another release.
func isIncomplete(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*api.SchemaError))
}

func checkStore(ctx context.Context, r *run) Row {
	const consequence = "no token can be read or refreshed, so only calls with a token in memory work"
	if r.config.StoreErr != nil && !isIncomplete(r.config.StoreErr) {
		return fail(reason(r.config.StoreErr), consequence, away)
	}
	if r.config.Store == nil && r.config.StoreErr == nil {
		return skip("no token store outside of memory is configured")
	}
	if r.config.StoreErr == nil {
		_, err := r.config.Store.Load(ctx, tokenstore.Key{Environment: r.environment(), User: unusedName()})
		if err != nil && !errors.Is(err, tokenstore.ErrNoRecord) {
			return fail(reason(err), consequence, away)
		}
		if err := r.config.Store.CheckWrite(ctx); err != nil {
			return fail("rejects writes: "+reason(err), "refreshed tokens are not stored, so users must authorize again after the next restart",
				"connect to the primary server, and check its disk and the permissions of the database user")
		}
	}
	return pass("responds and accepts writes")
}

func checkStoreSchema(_ context.Context, r *run) Row {
	if r.config.StoreErr != nil {
		return fail("has no tables, or those of another release", "tokens cannot be read or written", createTables)
	}
	return pass("all tables exist")
}

func checkStoreSealed(_ context.Context, r *run) Row {
	if store, ok := r.config.Store.(interface{ Encrypts() bool }); ok && store.Encrypts() {
		return pass("tokens are encrypted")
	}
	if _, memory := r.config.Store.(*tokenstore.MemoryStore); memory {
		if r.environment().IsSandbox() {
			return pass("tokens are in memory only")
		}
		return fail("tokens are in memory only", "all users must authorize again when the process ends", "use package sqlstore, wrapped in tokenstore.Sealed")
	}
	return warn("tokens reach the store unencrypted", "anyone who reads the database or a backup can act for all users",
		"wrap the store in tokenstore.Sealed, and ask all users to connect again; or give a store that encrypts tokens itself a method Encrypts() bool")
}

// mostUsers is the largest number of users in the row "store users".
const mostUsers = 1000

func checkStoreUsers(ctx context.Context, r *run) Row {
	listed, err := r.config.Store.List(ctx, tokenstore.Listing{Environment: r.environment(), State: tokenstore.StateReauthorize, Limit: mostUsers})
	switch {
	case err != nil:
		return fail(reason(err), "the users who must authorize again are unknown", away)
	case len(listed) == 0:
		return pass("no user needs to authorize again")
	}
	reasons := map[tokenstore.Reason]int{}
	for _, record := range listed {
		reasons[record.Reason]++
	}
	return warn(fmt.Sprintf("%d users must authorize again: %v", len(listed), reasons), "calls for them fail until they do",
		"ask them to connect again; if most reasons are invalid_grant, check whether scopes were added to the application")
}

// checkStoreLease takes the lease on the record. A refresh has it for a moment only, so checkStoreLease
// waits for it no longer than LeaseTTL.
func checkStoreLease(ctx context.Context, r *run) Row {
	ctx, cancel := context.WithTimeout(ctx, r.config.LeaseTTL+checkTimeout)
	defer cancel()
	start, pause := time.Now(), time.NewTicker(r.config.LeaseTTL/20+1)
	defer pause.Stop()
	owner, version := unusedName(), r.record.Version
	for {
		lease := tokenstore.Lease{Key: r.record.Key, Version: version, Owner: owner}
		_, err := r.config.Store.Lease(ctx, lease, time.Second)
		switch {
		case err == nil:
			if err := r.config.Store.Release(ctx, lease); err != nil {
				return fail(reason(err), "the record stays leased until the lease expires", away)
			}
			return pass("no refresh is stuck")
		case errors.Is(err, tokenstore.ErrConflict):
			return pass("the record was just written")
		case !errors.Is(err, tokenstore.ErrLeased):
			return fail(reason(err), "no token can be refreshed", away)
		case time.Since(start) > r.config.LeaseTTL:
			return fail("the lease on the record exceeds LeaseTTL, and no token was written", "the token of this user is not refreshed",
				"find the replica that hangs in a refresh or has a longer LeaseTTL, and stop it, so that the lease expires")
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fail("the record is leased", "the token of this user is not refreshed meanwhile", "run this again; if the lease remains, find the replica that hangs")
		}
	}
}

func checkInbox(ctx context.Context, r *run) Row {
	const consequence = "events are rejected with 503, and the platform disables the endpoint after 24 hours"
	if r.config.InboxErr != nil && !isIncomplete(r.config.InboxErr) {
		return fail(reason(r.config.InboxErr), consequence, away)
	}
	if r.config.Inbox == nil && r.config.InboxErr == nil {
		return skip("no inbox outside of memory is configured")
	}
	if r.config.InboxErr == nil {
		var err error
		if r.stats, err = r.config.Inbox.Stats(ctx); err != nil {
			return fail(reason(err), consequence, away)
		}
	}
	return pass("responds")
}

func checkInboxSchema(_ context.Context, r *run) Row {
	if r.config.InboxErr != nil {
		return fail("has no tables, or those of another release", "events cannot be stored", createTables)
	}
	return pass("all tables exist")
}

// oldestWaiting is the longest wait of an event in the inbox without a warning.
const oldestWaiting = 15 * time.Minute

func checkInboxWaiting(_ context.Context, r *run) Row {
	if r.stats.Oldest.IsZero() {
		return pass("no event waits")
	}
	age := r.config.Now().Sub(r.stats.Oldest)
	seen := fmt.Sprintf("%d events wait and %d are being handled, the oldest for %s", r.stats.Waiting, r.stats.Running, days(age))
	if age > oldestWaiting {
		return warn(seen, "changes on the platform appear late, and later events of the same object wait too",
			"check the log for the reason that handlers fail; check that a process handles events, and that Work.Workers is large enough")
	}
	return pass("%s", seen)
}

func checkInboxDead(_ context.Context, r *run) Row {
	if r.stats.Dead == 0 {
		return pass("none")
	}
	return warn(fmt.Sprintf("%d", r.stats.Dead), "these events are acknowledged but not handled, and the platform does not send them again",
		"read the reasons on the page of package admin, fix the handler, and replay the events")
}

// sample is the largest number of events to decrypt.
const sample = 20

func checkInboxSealed(ctx context.Context, r *run) Row {
	inbox, ok := r.config.Inbox.(engine.Engine)
	if !ok {
		return skip("the inbox does not decrypt events")
	}
	const consequence = "events are acknowledged but cannot be handled"
	list, err := inbox.List(ctx, engine.Filter{}, engine.Page{Limit: sample})
	if err != nil {
		return fail(reason(err), consequence, away)
	}
	for _, event := range list {
		if _, err := inbox.Open(ctx, event.Key); err != nil && !errors.Is(err, engine.ErrNotStored) {
			return fail("cannot decrypt a body: "+reason(err), consequence, "put the key back into SealKeys, after the newest key, and replay the dead letters")
		}
	}
	return pass("decrypted %d stored events", len(list))
}

// missedIntervals is the largest number of intervals without a run before the check fails.
const missedIntervals = 3

// checkReconcile checks that a replica looks for missed webhooks.
func checkReconcile(ctx context.Context, r *run) Row {
	const consequence = "events that the platform cannot deliver are lost after 30 days"
	if len(r.config.Webhook.Secrets) == 0 {
		return skip("no webhook secret is configured, so no webhooks are received")
	}
	inbox, ok := r.config.Inbox.(reconcile.CheckpointReader)
	if !ok {
		return skip("the inbox has no checkpoints to read")
	}
	began, lastTurn, err := reconcile.ReadPass(ctx, inbox, r.environment())
	if err != nil {
		return fail(reason(err), consequence, away)
	}
	age := r.config.Now().Sub(lastTurn)
	switch {
	case lastTurn.IsZero():
		return fail("no replica has ever looked for missed webhooks", consequence,
			"start the program: Run of package integration reconciles, unless Setup.DisableReconcile is true; without that package, run reconcile.Clinics")
	case age > missedIntervals*r.config.ReconcileEvery:
		return fail("no replica has looked for missed webhooks for "+days(age), consequence,
			"find the reason in the log of the program, in the lines about webhook events that are not reconciled")
	}
	return pass("the last pass over all clinics began %s ago", days(r.config.Now().Sub(began)))
}
