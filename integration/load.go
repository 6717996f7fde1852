package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/environ"
)

// Load reads a configuration from the variables in environ, usually [os.Environ], and in files. It
// changes nothing and sends no request. It treats an empty variable as unset.
//
//	DISPENSARY_STORE, _INBOX, _SEAL_KEYS, _STATE_KEYS    see [Config]
//
// and for each environment, for example with the prefix DISPENSARY_US_SANDBOX_,
//
//	BASE_URL, AUTH_URL, CLIENT_ID, CLIENT_SECRET, REDIRECT_URL, SCOPES,
//	WEBHOOK_SECRETS, WEBHOOK_CHALLENGE, CLINIC_KEY, RATE_LIMIT    see [Application]
//
// White space separates the values of a list. To read a value from a file, such as a container
// secret, append _FILE to the name: DISPENSARY_US_SANDBOX_CLIENT_SECRET_FILE is the path of a
// file. The file is UTF-8, with or without a byte order mark, and may end with line breaks.
//
// Load reports any other variable that begins with DISPENSARY_ and is not empty, and suggests the
// closest name. It ignores DISPENSARY_TEST_… (free for your tests), the variables of
// [dispensary.NewFromEnv] and of the command, and the variables of Kubernetes for a Service, such
// as DISPENSARY_SERVICE_HOST.
//
// Load reads only the given files, usually ".env" on a laptop:
//
//	# a comment
//	DISPENSARY_STORE=sqlite:/var/lib/ehr/dispensary.db # another one
//	export DISPENSARY_STATE_KEYS='two keys, exactly as they are'
//	DISPENSARY_US_SANDBOX_CLIENT_SECRET="with \n, \r, \t, \", \\ and \$"
//
// A value ends on its line, and $ has no special meaning. Load reports a value that is only
// ${NAME}, and a value of the environment with quotes around it: docker run --env-file passes both
// unchanged. The environment overrides the files, and
// an earlier file overrides a later one. Load ignores lines without a variable of this library.
//
// The error joins all problems of [Config.Check] and all unreadable values. Each problem is an
// [*api.ArgumentError] with the name of the variable, and its line if it is in a file. Load returns
// the configuration even with an error, for programs that need only a part of it. If a file in
// files cannot be read, the error is not an [*api.ArgumentError] and the configuration is empty.
func Load(environ []string, files ...string) (Config, error) {
	all, err := readVariables(environ, files)
	if err != nil {
		return Config{}, err
	}
	r := &reader{names: fromVariables, get: all.get, problems: all.unknown(), files: slices.Clone(files)}
	config, err := r.read()
	return config, all.located(err)
}

// setting is a setting of T, which is [Config] or [Application].
type setting[T any] struct {
	key, field string // in a file, and in Go
	list       bool
	put        func(into *T, values []string)
}

var ofConfig = []setting[Config]{
	{"store", "Store", false, func(c *Config, v []string) { c.Store = dispensary.NewSecret(v[0]) }},
	{"inbox", "Inbox", false, func(c *Config, v []string) { c.Inbox = dispensary.NewSecret(v[0]) }},
	{"seal_keys", "SealKeys", false, func(c *Config, v []string) { c.SealKeys = dispensary.NewSecret(v[0]) }},
	{"state_keys", "StateKeys", true, func(c *Config, v []string) { c.StateKeys = secrets(v) }},
}

var ofApplication = []setting[Application]{
	{"base_url", "Site.BaseURL", false, func(a *Application, v []string) { a.Site.BaseURL = v[0] }},
	{"auth_url", "Site.AuthURL", false, func(a *Application, v []string) { a.Site.AuthURL = v[0] }},
	{"client_id", "ClientID", false, func(a *Application, v []string) { a.ClientID = v[0] }},
	{"client_secret", "ClientSecret", false, func(a *Application, v []string) { a.ClientSecret = dispensary.NewSecret(v[0]) }},
	{"redirect_url", "RedirectURL", false, func(a *Application, v []string) { a.RedirectURL = v[0] }},
	{"scopes", "Scopes", true, func(a *Application, v []string) { a.Scopes = v }},
	{"webhook_secrets", "WebhookSecrets", true, func(a *Application, v []string) { a.WebhookSecrets = secrets(v) }},
	{"webhook_challenge", "WebhookChallenge", false, func(a *Application, v []string) { a.WebhookChallenge = dispensary.NewSecret(v[0]) }},
	{"clinic_key", "ClinicKey", false, func(a *Application, v []string) { a.ClinicKey = dispensary.NewSecret(v[0]) }},
	{"rate_limit", "RateLimit", false, func(a *Application, v []string) { a.RateLimit = v[0] }},
}

func secrets(values []string) []dispensary.Secret {
	made := make([]dispensary.Secret, len(values))
	for i, value := range values {
		made[i] = dispensary.NewSecret(value)
	}
	return made
}

// of returns the name of a setting of an environment, or of all environments if it is "".
func (n names) of(environment dispensary.Environment, key string) string {
	switch n {
	case fromVariables:
		return n.variable(environment, key)
	case fromFile:
		if environment != "" {
			return "environments." + environment.String() + "." + key
		}
		return key
	}
	field := key
	for _, s := range ofConfig {
		if s.key == key {
			field = s.field
		}
	}
	for _, s := range ofApplication {
		if s.key == key {
			field = "Applications[" + environment.String() + "]." + s.field
		}
	}
	return "integration.Config." + field
}

func (n names) variable(environment dispensary.Environment, key string) string {
	if environment == "" {
		return prefix + strings.ToUpper(key)
	}
	baseURL, _ := environ.Variables(environment)
	return strings.TrimSuffix(baseURL, "BASE_URL") + strings.ToUpper(key)
}

// environments returns the name of the list of applications.
func (n names) environments() string {
	return [...]string{"integration.Config.Applications", "DISPENSARY_<REGION>_<STAGE>_BASE_URL", "environments"}[n]
}

// reader reads a configuration.
type reader struct {
	names names

	// get returns the values of a setting of an environment, or of all environments if it is
	// "". It returns no values for an absent setting.
	get func(environment dispensary.Environment, key string, list bool) ([]string, error)

	problems []error
	unread   map[string]bool // settings with a reported problem
	files    []string        // files that were read
}

func (r *reader) read() (Config, error) {
	r.unread = map[string]bool{}
	config := Config{names: r.names}
	readInto(r, "", ofConfig, &config)
	for _, environment := range environ.Environments() {
		application := Application{Site: dispensary.Site{Environment: environment}}
		if readInto(r, environment, ofApplication, &application) {
			config.Applications = append(config.Applications, application)
		}
	}
	for _, problem := range environ.Errors(config.Check()) {
		var argument *api.ArgumentError
		if !errors.As(problem, &argument) || !r.unread[argument.Field] {
			r.problems = append(r.problems, problem)
		}
	}
	config.files = r.files
	return config, errors.Join(r.problems...)
}

// readInto reads settings, and reports whether any is present.
func readInto[T any](r *reader, environment dispensary.Environment, settings []setting[T], into *T) (given bool) {
	for _, s := range settings {
		values, err := r.get(environment, s.key, s.list)
		file, fileErr := r.get(environment, s.key+"_file", false)
		name := r.names.of(environment, s.key)
		switch {
		case err == nil && fileErr != nil:
			err, name = fileErr, r.names.of(environment, s.key+"_file")
		case len(values) > 0 && len(file) > 0:
			err = errors.New("must not be set together with the name of its file")
		case len(file) > 0:
			values, err = valuesOf(file[0], s.list)
			r.files = append(r.files, file[0])
			name = r.names.of(environment, s.key+"_file")
		}
		if err != nil {
			r.unread[r.names.of(environment, s.key)] = true
			r.problems = append(r.problems, &api.ArgumentError{Field: name, Reason: err.Error(), Err: errors.Unwrap(err)})
			given = true
		}
		if err == nil && len(values) > 0 {
			s.put(into, values)
			given = true
		}
	}
	return given
}

// valuesOf reads the value of a setting from a file.
func valuesOf(path string, list bool) ([]string, error) {
	data, err := os.ReadFile(path)
	var failure *fs.PathError
	switch {
	case errors.As(err, &failure):
		return nil, fmt.Errorf("names an unreadable file: %w", failure.Err)
	case err != nil:
		return nil, err
	}
	if data, err = environ.DecodeText(data); err != nil {
		return nil, fmt.Errorf("names a file that %w", err)
	}
	values := strings.Fields(string(data))
	if !list && len(values) > 0 {
		values = []string{strings.TrimRight(string(data), "\r\n")}
	}
	if len(values) == 0 {
		return nil, errors.New("names an empty file")
	}
	return values, nil
}
