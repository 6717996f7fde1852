package simulation

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// errDatabase is the error of a store without a connection.
var errDatabase = errors.New("lost the connection to the database")

var databaseFates = []schedule.Fate{schedule.Refused, schedule.AnswerLost, schedule.AnswerLost}

// database is the database shared by all replicas.
type database struct {
	*tokenstore.MemoryStore
	down  atomic.Bool
	write func(op string, key tokenstore.Key, work func() error) error // runs and checks every write
}

// tokenStore is the view of the database from one replica.
type tokenStore struct {
	process *schedule.Process
	db      *database
}

// ask makes a call to the database.
func ask[T any](ctx context.Context, s tokenStore, op string, key tokenstore.Key, work func() (T, error)) (T, error) {
	name := "database: " + op
	if key.User != "" {
		name += " " + key.User
	}
	call := schedule.Spec{Name: name, Fates: databaseFates, Fail: func(schedule.Fate) error { return errDatabase }}
	return schedule.Do(ctx, s.process, call, func() (result T, err error) {
		if s.db.down.Load() {
			return result, errDatabase
		}
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		err = s.db.write(op, key, func() (err error) { result, err = work(); return err })
		return result, err
	})
}

type nothing struct{}

func (s tokenStore) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	return ask(ctx, s, "Load", key, func() (tokenstore.Record, error) { return s.db.Load(ctx, key) })
}

func (s tokenStore) Save(ctx context.Context, key tokenstore.Key, token oauth.Token) (tokenstore.Record, error) {
	return ask(ctx, s, "Save", key, func() (tokenstore.Record, error) { return s.db.Save(ctx, key, token) })
}

func (s tokenStore) SaveVersion(ctx context.Context, key tokenstore.Key, version int64, token oauth.Token) (tokenstore.Record, error) {
	return ask(ctx, s, "SaveVersion", key, func() (tokenstore.Record, error) { return s.db.SaveVersion(ctx, key, version, token) })
}

func (s tokenStore) DeleteVersion(ctx context.Context, key tokenstore.Key, version int64) error {
	_, err := ask(ctx, s, "DeleteVersion", key, func() (nothing, error) { return nothing{}, s.db.DeleteVersion(ctx, key, version) })
	return err
}

func (s tokenStore) Lease(ctx context.Context, lease tokenstore.Lease, ttl time.Duration) (tokenstore.Record, error) {
	return ask(ctx, s, "Lease", lease.Key, func() (tokenstore.Record, error) { return s.db.Lease(ctx, lease, ttl) })
}

func (s tokenStore) Commit(ctx context.Context, lease tokenstore.Lease, token oauth.Token) (tokenstore.Record, error) {
	return ask(ctx, s, "Commit", lease.Key, func() (tokenstore.Record, error) { return s.db.Commit(ctx, lease, token) })
}

func (s tokenStore) Fail(ctx context.Context, lease tokenstore.Lease, reason tokenstore.Reason) (tokenstore.Record, error) {
	return ask(ctx, s, "Fail", lease.Key, func() (tokenstore.Record, error) { return s.db.Fail(ctx, lease, reason) })
}

func (s tokenStore) Release(ctx context.Context, lease tokenstore.Lease) error {
	_, err := ask(ctx, s, "Release", lease.Key, func() (nothing, error) { return nothing{}, s.db.Release(ctx, lease) })
	return err
}

func (s tokenStore) CheckWrite(ctx context.Context) error {
	_, err := ask(ctx, s, "CheckWrite", tokenstore.Key{}, func() (nothing, error) { return nothing{}, s.db.CheckWrite(ctx) })
	return err
}

func (s tokenStore) ClaimFlow(ctx context.Context, claim tokenstore.FlowClaim, ttl time.Duration) (string, error) {
	return ask(ctx, s, "ClaimFlow", tokenstore.Key{}, func() (string, error) { return s.db.ClaimFlow(ctx, claim, ttl) })
}

func (s tokenStore) EndFlow(ctx context.Context, claim tokenstore.FlowClaim, result string) error {
	_, err := ask(ctx, s, "EndFlow", tokenstore.Key{}, func() (nothing, error) { return nothing{}, s.db.EndFlow(ctx, claim, result) })
	return err
}

func (s tokenStore) List(ctx context.Context, listing tokenstore.Listing) ([]tokenstore.Record, error) {
	return ask(ctx, s, "List", tokenstore.Key{}, func() ([]tokenstore.Record, error) { return s.db.List(ctx, listing) })
}

func (s tokenStore) ListClinics(ctx context.Context, environment api.Environment, after string, limit int) ([]string, error) {
	return ask(ctx, s, "ListClinics", tokenstore.Key{}, func() ([]string, error) { return s.db.ListClinics(ctx, environment, after, limit) })
}

func (s tokenStore) ClaimDue(ctx context.Context, due tokenstore.Due) ([]tokenstore.Record, error) {
	return ask(ctx, s, "ClaimDue", tokenstore.Key{}, func() ([]tokenstore.Record, error) { return s.db.ClaimDue(ctx, due) })
}

func (s tokenStore) Postpone(ctx context.Context, lease tokenstore.Lease, until time.Time) error {
	_, err := ask(ctx, s, "Postpone", lease.Key, func() (nothing, error) { return nothing{}, s.db.Postpone(ctx, lease, until) })
	return err
}
