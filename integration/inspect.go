package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

// Inspection is the token store and the inbox of one environment, opened while other processes
// use them. Close it after use.
type Inspection struct {
	// OAuth is the application.
	OAuth oauth.Config

	// Store is the token store. It is nil if none is configured, if it is in the memory of
	// another process, or if StoreErr is not nil.
	Store tokenstore.Store

	// Inbox counts events. It is nil in the same cases, with InboxErr.
	Inbox Counter

	// StoreErr and InboxErr are the errors of opening. They match [fs.ErrNotExist] if a file is
	// missing, and [*api.SchemaError] if the tables are missing or have another version.
	StoreErr, InboxErr error

	// SecretFiles are the paths of files with secrets: configuration, keys, SQLite databases.
	SecretFiles []string

	// Databases are the connections to database servers.
	Databases []Database

	closers []closer
}

// Database is the connection of a setting to a database server.
type Database struct {
	// Setting is the name of the setting with the URL, such as DISPENSARY_STORE.
	Setting string

	// Private reports whether the network cannot read the connection, because the database is on
	// this machine or connections without TLS fail.
	Private bool
}

// Inspect opens the token store and the inbox of one environment for a tool, while other processes
// use them. It creates no files or tables and handles no events.
//
// It fails with an [*api.ArgumentError] if the environment has no application, or if a URL or the
// keys are invalid. Errors of the databases are in [Inspection].
func Inspect(ctx context.Context, config Config, environment dispensary.Environment) (*Inspection, error) {
	at := slices.IndexFunc(config.Applications, func(a Application) bool { return a.Site.Environment == environment })
	if at < 0 {
		return nil, &api.ArgumentError{Field: "environment", Reason: "has no application: " + environment.String()}
	}
	made := &Inspection{OAuth: config.Applications[at].oauth(oauth.Config{})}
	store, storeProblem := parseAddress(config.Store, false)
	inbox, inboxProblem := parseAddress(config.Inbox, true)
	var problems []error
	if !config.Store.IsZero() && storeProblem != "" {
		problems = append(problems, config.problem(config.name("store"), storeProblem))
	}
	if !config.Inbox.IsZero() && inboxProblem != "" {
		problems = append(problems, config.problem(config.name("inbox"), inboxProblem))
	}
	durable := func(at address, problem string) bool { return problem == "" && at.durable() }
	var keys *seal.KeyRing
	if durable(store, storeProblem) || durable(inbox, inboxProblem) {
		var err error
		if keys, err = seal.ParseKeyRing(config.SealKeys); err != nil {
			problems = append(problems, config.unusableKeys(err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	made.SecretFiles = config.files
	if durable(store, storeProblem) {
		made.surround(config.name("store"), store)
		made.openStore(ctx, store, keys)
	}
	if durable(inbox, inboxProblem) {
		made.surround(config.name("inbox"), inbox)
		made.openInbox(ctx, inbox, keys)
	}
	return made, nil
}

// Close closes store and inbox.
func (i *Inspection) Close(ctx context.Context) error {
	var all []error
	for _, close := range i.closers {
		all = append(all, close(ctx))
	}
	return errors.Join(all...)
}

// openStore opens a store whose tables must exist.
func (i *Inspection) openStore(ctx context.Context, at address, keys *seal.KeyRing) {
	if i.StoreErr = exists(at); i.StoreErr != nil {
		return
	}
	store, err := at.driver.OpenStore(ctx, at.name, StoreOptions{Keys: keys, Existing: true})
	if i.StoreErr = err; err == nil {
		i.Store = store.Store
		i.closers = append(i.closers, store.Close)
	}
}

// openInbox opens an inbox whose tables must exist. It neither accepts nor handles events.
func (i *Inspection) openInbox(ctx context.Context, at address, keys *seal.KeyRing) {
	if i.InboxErr = exists(at); i.InboxErr != nil {
		return
	}
	inbox, err := at.driver.OpenReader(ctx, at.name, keys)
	if i.InboxErr = err; err == nil {
		i.Inbox = inbox.Counter
		i.closers = append(i.closers, inbox.Close)
	}
}

// surround adds the file or the connection of a database.
func (i *Inspection) surround(setting string, at address) {
	switch {
	case !at.isFile():
		i.Databases = append(i.Databases, Database{Setting: setting, Private: at.driver.Private(at.name)})
	case !slices.Contains(i.SecretFiles, at.name):
		i.SecretFiles = append(slices.Clone(i.SecretFiles), at.name)
	}
}

// exists returns an error if the file of a database is missing.
func exists(at address) error {
	if !at.isFile() {
		return nil
	}
	if _, err := os.Stat(at.name); err != nil {
		return fmt.Errorf("integration: %w", err)
	}
	return nil
}
