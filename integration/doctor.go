package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// OpenDoctor opens what package doctor looks at in one environment: the token store and
// the inbox, beside the processes that have them open. It makes no files and no tables,
// and handles no events. What cannot be opened is StoreErr and InboxErr of the result;
// what is not configured, or in the memory of another process, is left out. closed closes
// what was opened.
//
// Errors: [dispensary.ErrUnknownSite] for an environment without an application, and
// [*dispensary.ArgumentError] for addresses and keys.
func OpenDoctor(ctx context.Context, config Config, environment dispensary.Environment) (made doctor.Config, closed func(context.Context) error, err error) {
	closed = func(context.Context) error { return nil }
	found := false
	for _, a := range config.Applications {
		if a.Site.Environment != environment {
			continue
		}
		found = true
		made = doctor.Config{
			OAuth: a.oauth(oauth.Config{}), ClinicKey: a.ClinicKey,
			Webhook: doctor.Webhook{Secrets: a.WebhookSecrets, Challenge: a.WebhookChallenge},
		}
	}
	if !found {
		return made, closed, fmt.Errorf("%w: no application of %s is configured", dispensary.ErrUnknownSite, environment)
	}
	store, storeProblem := parseAddress(config.Store, []kind{postgres, mysql, sqlite, memory})
	inbox, inboxProblem := parseAddress(config.Inbox, []kind{postgres, sqlite, memory})
	var problems []error
	if !config.Store.IsZero() && storeProblem != "" {
		problems = append(problems, config.problem(config.name("store"), storeProblem))
	}
	if !config.Inbox.IsZero() && inboxProblem != "" {
		problems = append(problems, config.problem(config.name("inbox"), inboxProblem))
	}
	durable := func(at address, problem string) bool { return problem == "" && at.kind != memory }
	var keys *seal.KeyRing
	if durable(store, storeProblem) || durable(inbox, inboxProblem) {
		if keys, err = seal.ParseKeyRing(config.SealKeys); err != nil {
			problems = append(problems, config.problem(config.name("seal_keys"), "cannot be used"))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return made, closed, err
	}
	made.SecretFiles = config.files
	var closers []closer
	if durable(store, storeProblem) {
		surround(&made, config.name("store"), store)
		held, close, err := existingStore(ctx, store, keys)
		if made.StoreErr = schemaError(err); close != nil {
			made.Store = held
			closers = append(closers, close)
		}
	}
	if durable(inbox, inboxProblem) {
		surround(&made, config.name("inbox"), inbox)
		held, close, err := existingInbox(ctx, inbox, keys)
		if made.InboxErr = schemaError(err); err == nil {
			made.Inbox = held
			closers = append(closers, close)
		}
	}
	return made, func(ctx context.Context) error {
		var all []error
		for _, close := range closers {
			all = append(all, close(ctx))
		}
		return errors.Join(all...)
	}, nil
}

// surround adds the file or the connection of a database to what doctor examines.
func surround(made *doctor.Config, setting string, at address) {
	switch {
	case at.kind != sqlite:
		made.Databases = append(made.Databases, doctor.Database{Setting: setting, Private: at.private()})
	case !slices.Contains(made.SecretFiles, at.name):
		made.SecretFiles = append(slices.Clone(made.SecretFiles), at.name)
	}
}

// schemaError adds [doctor.ErrSchema] to an error of opening if a table or a column is missing.
func schemaError(err error) error {
	var missing *api.SchemaError
	if errors.As(err, &missing) {
		return fmt.Errorf("%w: %w", doctor.ErrSchema, err)
	}
	return err
}

// exists fails where a file that has to be there is not.
func exists(at address) error {
	if at.kind != sqlite {
		return nil
	}
	if _, err := os.Stat(at.name); err != nil {
		return fmt.Errorf("%w: %w", doctor.ErrSchema, err)
	}
	return nil
}

// existingStore opens a store whose tables are there.
func existingStore(ctx context.Context, at address, keys *seal.KeyRing) (tokenstore.Store, closer, error) {
	if err := exists(at); err != nil {
		return nil, nil, err
	}
	d, err := openDatabase(ctx, at, 0)
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlstore.OpenExisting(ctx, d.db, keys)
	return store, d.close, err
}

// existingInbox opens the inbox at an address, whose tables must exist. It neither accepts nor
// handles events.
func existingInbox(ctx context.Context, at address, keys *seal.KeyRing) (doctor.Inbox, closer, error) {
	if err := exists(at); err != nil {
		return nil, nil, err
	}
	if at.kind == sqlite {
		inbox, err := sqlinbox.OpenReader(at.name)
		if err != nil {
			return nil, nil, err
		}
		return inbox, inbox.Close, nil
	}
	pool, err := newPool(ctx, at.name, 0)
	if err != nil {
		return nil, nil, err
	}
	inbox, err := riverinbox.New(ctx, pool, riverinbox.Config{
		Seal: keys,
		Work: webhook.Work{Handle: func(context.Context, events.Event) error { return errors.ErrUnsupported }},
	})
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return inbox, func(ctx context.Context) error { return errors.Join(inbox.Close(ctx), closePool(pool)(ctx)) }, nil
}
