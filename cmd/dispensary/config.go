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

// configFolder returns the folder for files of the user.
func (p *program) configFolder() (string, error) {
	folder, err := p.configDir()
	return filepath.Join(folder, "dispensary"), err
}

// siteFile returns the name of a file for a site, such as listen-us-sandbox-0123456789ab.json.
// The name differs between sites of one environment, and between values of more.
func siteFile(kind, extension string, s dispensary.Site, more ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{strings.TrimSuffix(s.BaseURL, "/")}, more...), "\n")))
	return fmt.Sprintf("%s-%s-%x%s", kind, strings.ReplaceAll(string(s.Environment), "/", "-"), sum[:6], extension)
}

// readConfig reads the configuration selected by the flags. Its error joins all problems.
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

// defaultConfig reads the configuration that is used without a flag: the environment variables,
// or if they configure nothing, the profile "default" of the user's file.
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

// loadConfig reads the configuration for a command that uses the settings with these keys. It
// ignores other missing settings, but reports every invalid one. It does not report a missing
// application: [program.application] does.
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

// isWrong reports whether a problem is anything but a missing setting.
func isWrong(problem error) bool {
	var argument *api.ArgumentError
	return !errors.As(problem, &argument) || !strings.HasPrefix(argument.Reason, "is empty")
}

// named returns a function that reports whether a key names field. The field can be an
// environment variable, a path in a file or a Go field.
func named(field string) func(key string) bool {
	field, _, _ = strings.Cut(strings.ToLower(field), "[")
	return func(key string) bool {
		return field == key || strings.HasSuffix(field, "."+key) || strings.HasSuffix(field, "_"+key)
	}
}

// target contains the flags for the application and the user of a command.
type target struct {
	environment, user string
	flags             *flag.FlagSet
}

func (t *target) define(flags *flag.FlagSet) {
	t.flags = flags
	flags.StringVar(&t.environment, "environment", "", "use the application of the environment `NAME`, such as us/sandbox (default: DISPENSARY_ENVIRONMENT, or the only one configured)")
}

func (t *target) defineUser(flags *flag.FlagSet) {
	flags.StringVar(&t.user, "user", "me", "`ID` of the user in your program; if set, DISPENSARY_ACCESS_TOKEN is ignored")
}

// given reports whether the command line contains the flag.
func (t *target) given(name string) bool { return t.flags != nil && t.flags.Changed(name) }

// application returns the application of c that t or DISPENSARY_ENVIRONMENT selects, or the only one.
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
		return integration.Application{}, fmt.Errorf("%s %s is not configured: use %s", source, name, strings.Join(names, " or "))
	case len(names) > 1:
		return integration.Application{}, fmt.Errorf("--environment is required: use %s", strings.Join(names, " or "))
	}
	return c.Applications[0], nil
}

// notConfigured returns the error of a configuration without an environment.
func (p *program) notConfigured() error {
	if p.config != "" || p.profile != "" {
		return errors.New(`no environment is configured: add one to "environments" in the file`)
	}
	return errors.New(`no environment is configured: run "dispensary dev -- COMMAND" with a fake platform, ` +
		"or set the variables of a sandbox application, such as DISPENSARY_US_SANDBOX_BASE_URL and …_AUTH_URL, " +
		"to the values in the developer dashboard, or use a file with --config")
}

// allowWriting rejects changes in production without --production.
func (p *program) allowWriting(environment dispensary.Environment) error {
	if !environment.IsSandbox() && !p.production {
		return fmt.Errorf("%s contains live data: add --production to allow changes", environment)
	}
	return nil
}

// Variables of the library and of its command.
const (
	environmentVariable = "DISPENSARY_ENVIRONMENT"
	tokenVariable       = "DISPENSARY_ACCESS_TOKEN"
	clinicKeyVariable   = "DISPENSARY_CLINIC_KEY"
)
