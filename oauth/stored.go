package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
)

// load reads the user's record; an error tells that its token must not be used.
func (c *Client) load(ctx context.Context, at slot) (Record, error) {
	ctx, cancel := c.limitStore(ctx)
	defer cancel()
	record, err := c.read(ctx, at)
	if err != nil {
		return Record{}, err
	}
	if err := c.vet(record); err != nil {
		return record, err
	}
	if c.config.outgrown(record.Token) {
		return c.outgrow(ctx, at, record)
	}
	return record, nil
}

// read is the store's Load with this package's errors.
func (c *Client) read(ctx context.Context, at slot) (Record, error) {
	record, err := at.store.Load(ctx, at.key)
	if errors.Is(err, ErrNoRecord) {
		return Record{}, c.reauthorize(at.key, ReasonNotConnected, ResourceOwner{}, nil)
	}
	return record, storeError("Load", at.key, err)
}

// vet reports why a stored token must not be used.
func (c *Client) vet(record Record) error {
	switch {
	case record.Token.Environment != c.Environment():
		return wrongEnvironment(record.Token.Environment, c.Environment())
	case record.State != StateActive: // one that is not known yet is no leave to refresh
		mark := c.reauthorize(record.Key, record.Reason, record.Token.ResourceOwner, nil)
		if c.retriable(record) {
			mark.retryFrom = record.UpdatedAt.Add(firstRetry)
		}
		return mark
	}
	return nil
}

// Usable reports why the token of a record must not be used, as far as the record
// tells: a [*ReauthorizeError] for a user who has to authorize again, and
// [api.ErrWrongEnvironment]. It asks nobody and changes nothing.
func (c *Client) Usable(record Record) error {
	if err := c.vet(record); err != nil {
		return err
	}
	if c.config.outgrown(record.Token) {
		return c.reauthorize(record.Key, ReasonScopesExtended, record.Token.ResourceOwner, nil)
	}
	return nil
}

// outgrow marks a user whose token lacks scopes that the application has since
// been given. Where someone else holds the lease, the next caller will mark.
func (c *Client) outgrow(ctx context.Context, at slot, record Record) (Record, error) {
	lease := Lease{Key: record.Key, Version: record.Version, Owner: rand.Text()}
	if _, err := at.store.Lease(ctx, lease, c.config.LeaseTTL); err != nil {
		return Record{}, c.reauthorize(at.key, ReasonScopesExtended, record.Token.ResourceOwner, nil)
	}
	return c.condemn(ctx, at, lease, record, ReasonScopesExtended, nil)
}

// condemn marks a user who has to authorize again, and tells so if that is new. If
// someone has replaced the token meanwhile, that token is returned and nobody is
// marked.
func (c *Client) condemn(ctx context.Context, at slot, lease Lease, old Record, reason Reason, cause error) (Record, error) {
	ctx, cancel := c.limitStore(ctx)
	defer cancel()
	owner := old.Token.ResourceOwner
	verdict := c.reauthorize(at.key, reason, owner, cause)
	_, err := at.store.Fail(ctx, lease, reason)
	switch {
	case err == nil && old.State != StateActive:
		return Record{}, verdict
	case err == nil:
		c.log(ctx, slog.LevelInfo, "user must authorize again", at.key, slog.String("reason", string(reason)))
		c.notify(ctx, MustReauthorize{Key: at.key, Reason: reason, Owner: owner})
		return Record{}, verdict
	case !isContention(err):
		// The verdict stands; without the mark the platform is asked again.
		c.log(ctx, slog.LevelError, "could not store that a user must authorize again", at.key, slog.Any("error", storeError("Fail", at.key, err)))
		return Record{}, verdict
	}
	current, err := c.read(ctx, at)
	if err == nil && current.Token.AccessToken != old.Token.AccessToken {
		return current, c.vet(current)
	}
	return Record{}, verdict
}
