package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/environ"
	"github.com/dispensary-go/dispensary/seal"
)

// configFolder returns the folder for files of the user.
func (s *surroundings) configFolder() (string, error) {
	folder, err := s.configDir()
	return filepath.Join(folder, "dispensary"), err
}

// siteFile returns the name of a file for a site, such as listen-us-sandbox-0123456789ab.json.
// The name differs between sites of one environment, and between values of more.
func siteFile(kind, extension string, s dispensary.Site, more ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{strings.TrimSuffix(s.BaseURL, "/")}, more...), "\n")))
	return fmt.Sprintf("%s-%s-%x%s", kind, strings.ReplaceAll(string(s.Environment), "/", "-"), sum[:6], extension)
}

// readConfig reads the configuration selected by the flags. Its error joins all problems.
func (s *surroundings) readConfig() (integration.Config, error) {
	switch {
	case s.config != "" && s.profile == "":
		return integration.LoadFile(s.config)
	case s.config != "":
		return integration.LoadProfile(s.config, s.profile)
	case s.profile != "":
		folder, err := s.configFolder()
		if err != nil {
			return integration.Config{}, fmt.Errorf("--profile: %w", err)
		}
		return integration.LoadProfile(filepath.Join(folder, configName), s.profile)
	}
	return s.defaultConfig()
}

// configName is the name of the configuration file in the user's configuration folder.
const configName = "config.json"

// defaultConfig reads the configuration that is used without a flag: the environment variables,
// or if they configure nothing, the profile "default" of the user's file.
func (s *surroundings) defaultConfig() (integration.Config, error) {
	c, err := integration.Load(s.environ)
	if len(c.Applications) > 0 || !c.Store.IsZero() || !c.Inbox.IsZero() || slices.ContainsFunc(environ.Errors(err), isWrong) {
		return c, err
	}
	folder, folderErr := s.configFolder()
	path := filepath.Join(folder, configName)
	if _, absent := os.Stat(path); folderErr != nil || absent != nil {
		return c, err
	}
	return integration.LoadProfile(path, "default")
}

// loadConfig reads the configuration for a command that uses the settings with these keys. It
// ignores other missing settings, but reports every invalid one. It does not report a missing
// application: [surroundings.application] does.
func (s *surroundings) loadConfig(uses ...string) (integration.Config, error) {
	c, err := s.readConfig()
	var problems []error
	for _, problem := range environ.Errors(err) {
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
func (s *surroundings) application(c integration.Config, t target) (integration.Application, error) {
	source, name := "--environment", t.environment
	if name == "" {
		source = environmentVariable
		name = s.lookup(source)
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
		return integration.Application{}, s.notConfigured()
	case name != "":
		return integration.Application{}, fmt.Errorf("%s %s is not configured: use %s", source, name, strings.Join(names, " or "))
	case len(names) > 1:
		return integration.Application{}, fmt.Errorf("--environment is required: use %s", strings.Join(names, " or "))
	}
	return c.Applications[0], nil
}

// notConfigured returns the error of a configuration without an environment.
func (s *surroundings) notConfigured() error {
	if s.config != "" || s.profile != "" {
		return errors.New(`no environment is configured: add one to "environments" in the file`)
	}
	return errors.New(`no environment is configured: run "dispensary dev -- COMMAND" with a fake platform, ` +
		"or set the variables of a sandbox application, such as DISPENSARY_US_SANDBOX_BASE_URL and …_AUTH_URL, " +
		"to the values in the developer dashboard, or use a file with --config")
}

// allowWriting rejects changes in production without --production.
func (s *surroundings) allowWriting(environment dispensary.Environment) error {
	if !environment.IsSandbox() && !s.production {
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

// variables returns the environment variables, by name, of a program that uses a fake platform.
// state is the platform's state file, or "". It omits storage and keys that the environment sets.
func (s *surroundings) variables(platform *dispensarytest.Server, settings control.Settings, state string) (map[string]string, error) {
	environment := platform.Site().Environment
	baseURL, _ := environ.Variables(environment)
	values := map[string]string{
		// With several clinics the application has no clinic key. The empty value replaces a key
		// in the environment.
		strings.TrimSuffix(baseURL, "BASE_URL") + "CLINIC_KEY": "",

		environmentVariable: environment.String(), clinicKeyVariable: settings.ClinicKey,
		tokenVariable: platform.Tokens.Issue(model.User{}).AccessToken, controlVariable: settings.ControlURL,
	}
	for _, variable := range platform.Variables() {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
	}
	if !s.isSet(sealKeysVariable) {
		keys, err := s.keys(state)
		if err != nil {
			return nil, err
		}
		values[sealKeysVariable] = keys.Reveal()
	}
	for name, value := range map[string]string{
		storeVariable: inMemory, inboxVariable: inMemory, "DISPENSARY_STATE_KEYS": rand.Text() + rand.Text(),
	} {
		if !s.isSet(name) {
			values[name] = value
		}
	}
	return values, nil
}

// Variables of storage and its encryption keys.
const (
	storeVariable    = "DISPENSARY_STORE"
	inboxVariable    = "DISPENSARY_INBOX"
	sealKeysVariable = "DISPENSARY_SEAL_KEYS"
)

// inMemory is the address of a store or an inbox that ends with its process.
const inMemory = "memory:"

// isSet reports whether a variable has a value, or the name of a file with its value.
func (s *surroundings) isSet(name string) bool {
	return s.lookup(name)+s.lookup(name+"_FILE") != ""
}

// keys returns the encryption keys for the program's storage. With a state file it reads or creates
// them in a file beside it. Otherwise it returns a key for this run, and rejects storage that
// outlives this run.
func (s *surroundings) keys(state string) (dispensary.Secret, error) {
	name := state + ".seal.key"
	if state != "" {
		if kept, err := readKeys(name); !kept.IsZero() || err != nil {
			return kept, err
		}
	}
	for _, storage := range []string{storeVariable, inboxVariable} {
		if at := s.lookup(storage); state == "" && s.isSet(storage) && at != inMemory {
			return dispensary.Secret{}, fmt.Errorf("%s outlives this run, but its encryption key does not: add --state, or set %s", storage, sealKeysVariable)
		}
	}
	key, err := seal.GenerateKey("dev")
	if err == nil && state != "" {
		err = writeKey(name, key)
	}
	return key.Text(), err
}

// envFile is the path of a file for environment variables, or "" for no file.
type envFile string

func (f *envFile) define(flags *flag.FlagSet) {
	flags.StringVar((*string)(f), "env", "", "write the environment variables for your program to `FILE`, such as .env.fake")
}

// envHeader is the first line of each file of [envFile].
const envHeader = "# Written by dispensary, which replaces this file.\n"

// check rejects an existing file without envHeader.
func (f envFile) check() error {
	if f == "" {
		return nil
	}
	about, err := os.Lstat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Stat(filepath.Dir(string(f))); err == nil {
			return nil
		}
	}
	var content []byte
	if err == nil && about.Mode().IsRegular() {
		content, err = os.ReadFile(string(f))
	}
	switch {
	case err != nil:
		return fmt.Errorf("--env: %w", err)
	case !bytes.HasPrefix(content, []byte(envHeader)):
		return fmt.Errorf("--env %s exists and was not written by dispensary: use another file", f)
	}
	return nil
}

// write replaces the file with the variables. Only the user can read it.
func (f envFile) write(variables map[string]string) error {
	if f == "" {
		return nil
	}
	if err := f.check(); err != nil {
		return err
	}
	var content strings.Builder
	content.WriteString(envHeader)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if value := variables[name]; value != "" {
			fmt.Fprintf(&content, "%s=%s\n", name, quotedValue(value))
		}
	}
	file, err := os.CreateTemp(filepath.Dir(string(f)), ".env-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	_, err = file.WriteString(content.String())
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), string(f))
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("--env: %w", err)
	}
	return nil
}

// plain matches a value without special characters for shells and .env parsers.
var plain = regexp.MustCompile(`^[\w.,:/@%+=?&-]*$`)

// quotedValue returns a value without line breaks in the syntax of the file.
func quotedValue(value string) string {
	switch {
	case plain.MatchString(value):
		return value
	case !strings.Contains(value, "'"):
		return "'" + value + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value) + `"`
}
