package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/joined"
)

// configFolder is where the command keeps files of the user.
func (p *program) configFolder() (string, error) {
	folder, err := p.configDir()
	return filepath.Join(folder, "dispensary"), err
}

// siteFile returns the name of a file about a site, such as listen-us-sandbox-0123456789ab.json.
// Two sites of one environment have different names, as have two values of more.
func siteFile(kind, extension string, s dispensary.Site, more ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{strings.TrimSuffix(s.BaseURL, "/")}, more...), "\n")))
	return fmt.Sprintf("%s-%s-%x%s", kind, strings.ReplaceAll(string(s.Environment), "/", "-"), sum[:6], extension)
}

// readConfig reads the configuration that the flags choose, with all of its problems.
func (p *program) readConfig() (integration.Config, error) {
	switch {
	case p.config != "" && p.profile == "":
		return integration.LoadFile(p.config)
	case p.config != "":
		return integration.LoadProfile(p.config, p.profile)
	case p.profile != "":
		folder, err := p.configFolder()
		if err != nil {
			return integration.Config{}, fmt.Errorf("--profile: %w", err)
		}
		return integration.LoadProfile(filepath.Join(folder, configName), p.profile)
	}
	return p.defaultConfig()
}

// configName is the name of the configuration file in the user's configuration folder.
const configName = "config.json"

// defaultConfig reads the configuration that is used if no flag chooses another one: the
// variables, or if they configure nothing the default profile of the user's file.
func (p *program) defaultConfig() (integration.Config, error) {
	c, err := integration.Load(p.environ)
	if len(c.Applications) > 0 || !c.Store.IsZero() || !c.Inbox.IsZero() || slices.ContainsFunc(joined.Errors(err), isWrong) {
		return c, err
	}
	folder, folderErr := p.configFolder()
	path := filepath.Join(folder, configName)
	if _, absent := os.Stat(path); folderErr != nil || absent != nil {
		return c, err
	}
	return integration.LoadProfile(path, "default")
}

// loadConfig reads the configuration for a command that uses the settings of these keys. What
// is missing of the others is no problem; what is given and cannot be read is one. If there is
// no application, [program.application] reports it.
func (p *program) loadConfig(uses ...string) (integration.Config, error) {
	c, err := p.readConfig()
	var problems []error
	for _, problem := range joined.Errors(err) {
		var argument *api.ArgumentError
		if isWrong(problem) || len(c.Applications) > 0 && errors.As(problem, &argument) && slices.ContainsFunc(uses, named(argument.Field)) {
			problems = append(problems, problem)
		}
	}
	return c, errors.Join(problems...)
}

// isWrong reports whether a problem is another one than a missing setting.
func isWrong(problem error) bool {
	var argument *api.ArgumentError
	return !errors.As(problem, &argument) || !strings.HasPrefix(argument.Reason, "is empty")
}

// named reports of a key whether it is that of a field, as a variable, in a file or in Go.
func named(field string) func(key string) bool {
	field, _, _ = strings.Cut(strings.ToLower(field), "[")
	return func(key string) bool {
		return field == key || strings.HasSuffix(field, "."+key) || strings.HasSuffix(field, "_"+key)
	}
}

// target is the application that a command works with, and the user of it.
type target struct {
	environment, user string
	flags             *flag.FlagSet // of the command
}

func (t *target) define(flags *flag.FlagSet) {
	t.flags = flags
	flags.StringVar(&t.environment, "environment", "", "work with the application of the environment `NAME`, such as us/sandbox; DISPENSARY_ENVIRONMENT unless set")
}

func (t *target) defineUser(flags *flag.FlagSet) {
	flags.StringVar(&t.user, "user", "me", "call as the connected user `ID`, and not with DISPENSARY_ACCESS_TOKEN")
}

// given reports whether the command line has a flag.
func (t *target) given(name string) bool { return t.flags != nil && t.flags.Changed(name) }

// application returns the application of c that a command works with.
func (p *program) application(c integration.Config, t target) (integration.Application, error) {
	source, name := "--environment", t.environment
	if name == "" {
		source = environmentVariable
		name = p.lookup(source)
	}
	wanted, _ := api.ParseEnvironment(name) // the zero value matches no application
	var names []string
	for _, a := range c.Applications {
		if a.Site.Environment == wanted {
			return a, nil
		}
		names = append(names, a.Site.Environment.String())
	}
	switch {
	case len(names) == 0:
		return integration.Application{}, p.notConfigured()
	case name != "":
		return integration.Application{}, fmt.Errorf("%s %s: configured is %s", source, name, strings.Join(names, ", "))
	case len(names) > 1:
		return integration.Application{}, fmt.Errorf("--environment is needed: configured are %s", strings.Join(names, ", "))
	}
	return c.Applications[0], nil
}

// notConfigured returns the error of a command that needs an environment and finds none.
func (p *program) notConfigured() error {
	if p.config != "" || p.profile != "" {
		return errors.New(`no environment is configured: add one to "environments" of the file`)
	}
	return errors.New(`no environment is configured: run "dispensary dev -- COMMAND", which starts a test platform, ` +
		"or set the variables of a sandbox application, such as DISPENSARY_US_SANDBOX_BASE_URL and …_AUTH_URL, " +
		"with the values of the developer dashboard, or name a file with --config")
}

// allowWriting refuses what changes something in production, unless --production allows it.
func (p *program) allowWriting(environment dispensary.Environment) error {
	if !environment.IsSandbox() && !p.production {
		return fmt.Errorf("%s has live data: add --production to change something there", environment)
	}
	return nil
}

// Variables of the library and of its command.
const (
	environmentVariable = "DISPENSARY_ENVIRONMENT"
	tokenVariable       = "DISPENSARY_ACCESS_TOKEN"
	clinicKeyVariable   = "DISPENSARY_CLINIC_KEY"
)
