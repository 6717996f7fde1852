package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/joined"
	"github.com/dispensary-go/dispensary/oauth"
)

// configFolder is where the command keeps files of the user.
func (p *program) configFolder() (string, error) {
	folder, err := p.configDir()
	return filepath.Join(folder, "dispensary"), err
}

// readConfig reads the configuration from wherever it is, with all of its problems.
func (p *program) readConfig() (integration.Config, error) {
	switch {
	case p.config != "" && p.profile == "":
		return integration.LoadFile(p.config)
	case p.config != "":
		return integration.LoadProfile(p.config, p.profile)
	}
	c, err := integration.Load(p.lookup)
	if p.profile == "" && (len(c.Applications) > 0 || c.Store != "" || c.Inbox != "") {
		return c, err
	}
	folder, folderErr := p.configFolder()
	path := filepath.Join(folder, "config.json")
	if p.profile != "" {
		if folderErr != nil {
			return c, fmt.Errorf("--profile: %w", folderErr)
		}
		return integration.LoadProfile(path, p.profile)
	}
	if _, absent := os.Stat(path); folderErr != nil || absent != nil {
		return c, err
	}
	return integration.LoadProfile(path, "default")
}

// loadConfig reads the configuration for a command that uses the settings of these keys. What
// is missing of the others is no problem; what is given and cannot be read is one.
func (p *program) loadConfig(uses ...string) (integration.Config, error) {
	c, err := p.readConfig()
	var problems []error
	for _, problem := range joined.Errors(err) {
		var argument *dispensary.ArgumentError
		if errors.As(problem, &argument) && strings.HasPrefix(argument.Reason, "is empty") && !slices.ContainsFunc(uses, named(argument.Field)) {
			continue
		}
		problems = append(problems, problem)
	}
	return c, errors.Join(problems...)
}

// named reports of a key whether it is that of a field, as a variable, in a file or in Go.
func named(field string) func(key string) bool {
	field, _, _ = strings.Cut(strings.ToLower(field), "[")
	return func(key string) bool {
		return field == key || strings.HasSuffix(field, "."+key) || strings.HasSuffix(field, "_"+key)
	}
}

// target says which application, and which user of it, a command works with.
type target struct{ environment, user string }

func (t *target) define(flags *flag.FlagSet) {
	flags.StringVar(&t.environment, "environment", "", "which application, as `NAME` us/sandbox; DISPENSARY_ENVIRONMENT unless set")
}

func (t *target) defineUser(flags *flag.FlagSet) {
	flags.StringVar(&t.user, "user", "me", "which of the connected users, by the `ID` they were connected with")
}

// application finds the application that a command works with.
func (p *program) application(c integration.Config, t target) (integration.Application, error) {
	name := t.environment
	if name == "" {
		name, _ = p.lookup("DISPENSARY_ENVIRONMENT")
	}
	var names []string
	for _, a := range c.Applications {
		if names = append(names, a.Site.Environment.String()); name == names[len(names)-1] {
			return a, nil
		}
	}
	switch {
	case len(names) == 0:
		return integration.Application{}, errors.New("no environment is configured: set DISPENSARY_US_SANDBOX_BASE_URL and …_AUTH_URL, or name a file with --config or --profile")
	case name != "":
		return integration.Application{}, fmt.Errorf("--environment %s: configured is %s", name, strings.Join(names, ", "))
	case len(names) > 1:
		return integration.Application{}, fmt.Errorf("--environment is needed: configured are %s", strings.Join(names, ", "))
	}
	return c.Applications[0], nil
}

// allowWriting refuses what changes something in production, unless --production allows it.
func (p *program) allowWriting(environment dispensary.Environment) error {
	if environment.Stage == dispensary.Production && !p.production {
		return fmt.Errorf("%s has live data: add --production to change something there", environment)
	}
	return nil
}

// client makes the client that calls with DISPENSARY_ACCESS_TOKEN, or as a user who was
// connected. It has to be closed, which waits until a token that was refreshed is stored.
func (p *program) client(ctx context.Context, t target) (_ *dispensary.Client, closed func() error, err error) {
	token, _ := p.lookup("DISPENSARY_ACCESS_TOKEN")
	if token == "" {
		app, _, err := p.openAccounts(ctx, t, nil)
		if err != nil {
			return nil, nil, err
		}
		client, err := app.Accounts.Client(ctx, t.user)
		closed := func() error { return app.Shutdown(context.WithoutCancel(ctx)) }
		if err != nil {
			return nil, nil, errors.Join(err, closed())
		}
		return client, closed, nil
	}
	c, err := p.loadConfig("base_url", "auth_url")
	if err != nil {
		return nil, nil, err
	}
	a, err := p.application(c, t)
	if err != nil {
		return nil, nil, err
	}
	options := []dispensary.Option{dispensary.WithTokenSource(oauth.Static(oauth.Token{
		AccessToken: dispensary.Secret(token), Environment: a.Site.Environment,
	}))}
	if key := p.clinicKey(a); key != "" {
		options = append(options, dispensary.WithClinicKey(key))
	}
	client, err := dispensary.New(a.Site, options...)
	return client, func() error { return nil }, err
}

// clinicKey is that of the application, or of the variable that stands for all of them.
func (p *program) clinicKey(a integration.Application) dispensary.Secret {
	if key, _ := p.lookup("DISPENSARY_CLINIC_KEY"); a.ClinicKey == "" {
		return dispensary.Secret(key)
	}
	return a.ClinicKey
}
