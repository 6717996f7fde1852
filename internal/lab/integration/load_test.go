package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/integration"
)

// variables returns the variables of a configuration with every setting.
func variables() map[string]string {
	return map[string]string{
		"DISPENSARY_STORE": "postgres://ehr:canary@db.example/ehr", "DISPENSARY_INBOX": "sqlite:/var/lib/ehr/dispensary.db",
		"DISPENSARY_SEAL_KEYS": sealKeys, "DISPENSARY_STATE_KEYS": stateKey + " old-" + stateKey,
		"DISPENSARY_US_SANDBOX_BASE_URL": "https://us.platform.example/api", "DISPENSARY_US_SANDBOX_AUTH_URL": "https://us.platform.example",
		"DISPENSARY_US_SANDBOX_CLIENT_ID": "id-us", "DISPENSARY_US_SANDBOX_CLIENT_SECRET": "canary-us",
		"DISPENSARY_US_SANDBOX_REDIRECT_URL": "https://ehr.example/dispensary/callback", "DISPENSARY_US_SANDBOX_SCOPES": "clinic:read patients:read",
		"DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS": "canary-new\ncanary-old", "DISPENSARY_US_SANDBOX_WEBHOOK_CHALLENGE": "canary-challenge",
		"DISPENSARY_US_SANDBOX_CLINIC_KEY": "canary-key", "DISPENSARY_US_SANDBOX_RATE_LIMIT": "300/1m30s",
		"DISPENSARY_CA_PRODUCTION_BASE_URL": "https://ca.platform.example/api", "DISPENSARY_CA_PRODUCTION_AUTH_URL": "https://ca.platform.example",
		"DISPENSARY_CA_PRODUCTION_CLIENT_ID": "id-ca", "DISPENSARY_CA_PRODUCTION_CLIENT_SECRET": "canary-ca",
		"DISPENSARY_CA_PRODUCTION_REDIRECT_URL": "https://ehr.example/dispensary/callback",
	}
}

// theFile is the same configuration as a file.
const theFile = `{
	"store": "postgres://ehr:canary@db.example/ehr", "inbox": "sqlite:/var/lib/ehr/dispensary.db",
	"seal_keys": "` + sealKeys + `", "state_keys": ["` + stateKey + `", "old-` + stateKey + `"],
	"environments": {
		"us/sandbox": {
			"base_url": "https://us.platform.example/api", "auth_url": "https://us.platform.example",
			"client_id": "id-us", "client_secret": "canary-us",
			"redirect_url": "https://ehr.example/dispensary/callback", "scopes": ["clinic:read", "patients:read"],
			"webhook_secrets": ["canary-new", "canary-old"], "webhook_challenge": "canary-challenge",
			"clinic_key": "canary-key", "rate_limit": "300/1m30s"
		},
		"ca/production": {
			"base_url": "https://ca.platform.example/api", "auth_url": "https://ca.platform.example",
			"client_id": "id-ca", "client_secret": "canary-ca",
			"redirect_url": "https://ehr.example/dispensary/callback"
		}
	}
}`

// byHand returns the same configuration in Go.
func byHand() integration.Config {
	return integration.Config{
		Store: dispensary.NewSecret("postgres://ehr:canary@db.example/ehr"), Inbox: dispensary.NewSecret("sqlite:/var/lib/ehr/dispensary.db"),
		SealKeys: dispensary.NewSecret(sealKeys), StateKeys: []dispensary.Secret{dispensary.NewSecret(stateKey), dispensary.NewSecret("old-" + stateKey)},
		Applications: []integration.Application{{
			Site: dispensary.Site{
				Environment: dispensary.CanadaProduction,
				BaseURL:     "https://ca.platform.example/api", AuthURL: "https://ca.platform.example",
			},
			ClientID: "id-ca", ClientSecret: dispensary.NewSecret("canary-ca"), RedirectURL: "https://ehr.example/dispensary/callback",
		}, {
			Site:     dispensary.Site{Environment: us, BaseURL: "https://us.platform.example/api", AuthURL: "https://us.platform.example"},
			ClientID: "id-us", ClientSecret: dispensary.NewSecret("canary-us"), RedirectURL: "https://ehr.example/dispensary/callback",
			Scopes:         []string{api.ScopeClinicRead, api.ScopePatientsRead},
			WebhookSecrets: []dispensary.Secret{dispensary.NewSecret("canary-new"), dispensary.NewSecret("canary-old")}, WebhookChallenge: dispensary.NewSecret("canary-challenge"),
			ClinicKey: dispensary.NewSecret("canary-key"), RateLimit: "300/1m30s",
		}},
	}
}

func loadFile(t *testing.T, text string) (integration.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dispensary.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return integration.LoadFile(path)
}

// Variables, a file and Go code result in the same configuration.
func TestSourcesAreEquivalent(t *testing.T) {
	t.Parallel()
	want := byHand()
	require.NoError(t, want.Check())
	for name, load := range map[string]func() (integration.Config, error){
		"variables": func() (integration.Config, error) { return load(variables()) },
		"file":      func() (integration.Config, error) { return loadFile(t, theFile) },
	} {
		got, err := load()
		require.NoError(t, err, name)
		assert.EqualExportedValues(t, want, got, name)
	}
}

func TestPrintingHidesSecrets(t *testing.T) {
	t.Parallel()
	config, err := load(variables())
	require.NoError(t, err)
	encoded, err := json.Marshal(config)
	require.NoError(t, err)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("configured", "config", config)
	texts := []string{string(encoded), log.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%x"} {
		texts = append(texts, fmt.Sprintf(verb, config))
	}
	for _, text := range texts {
		for _, secret := range []string{"canary", sealKeys, stateKey, "63616e617279"} {
			assert.NotContains(t, text, secret)
		}
	}
}

// Values can be in files, such as container secrets, with a line break at the end.
func TestLoadReadsValuesFromFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	moved := variables()
	for name, value := range variables() {
		delete(moved, name)
		moved[name+"_FILE"] = write(name, value+"\n")
	}
	got, err := load(moved)
	require.NoError(t, err)
	assert.EqualExportedValues(t, byHand(), got)

	text := strings.Replace(theFile, `"client_secret": "canary-us"`, `"client_secret_file": "`+write("secret", "canary-us\r\n")+`"`, 1)
	got, err = loadFile(t, text)
	require.NoError(t, err)
	assert.EqualExportedValues(t, byHand(), got)

	moved = variables()
	moved["DISPENSARY_STORE_FILE"] = write("store", "memory:")
	moved["DISPENSARY_SEAL_KEYS"], moved["DISPENSARY_SEAL_KEYS_FILE"] = "", filepath.Join(folder, "none")
	moved["DISPENSARY_US_SANDBOX_CLIENT_SECRET"], moved["DISPENSARY_US_SANDBOX_CLIENT_SECRET_FILE"] = "", write("empty", " \n")
	_, err = load(moved)
	assert.ElementsMatch(t, []string{
		"DISPENSARY_STORE must not be set together with the name of its file",
		"DISPENSARY_SEAL_KEYS_FILE names an unreadable file: no such file or directory",
		"DISPENSARY_US_SANDBOX_CLIENT_SECRET_FILE names an empty file",
	}, problems(t, err))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Notepad and PowerShell 5 write a byte order mark before a text, or UTF-16.
func TestLoadReadsFilesOfWindowsEditors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	inFile := variables()
	delete(inFile, "DISPENSARY_US_SANDBOX_CLIENT_SECRET")
	inFile["DISPENSARY_US_SANDBOX_CLIENT_SECRET_FILE"] = path
	want := byHand()
	for _, text := range []string{"\ufeffcanary-us", "\ufeffcanary-us\r\n"} {
		write(text)
		got, err := load(inFile)
		require.NoError(t, err)
		assert.Equal(t, want.Applications[1].ClientSecret.Reveal(), got.Applications[1].ClientSecret.Reveal())
	}
	for text, reason := range map[string]string{
		"\ufeff\r\n":    "names an empty file",
		"\xff\xfec\x00": "names a file that is encoded in UTF-16: save it as UTF-8",
		"\xfe\xff\x00c": "names a file that is encoded in UTF-16: save it as UTF-8",
	} {
		write(text)
		_, err := load(inFile)
		assert.Equal(t, []string{"DISPENSARY_US_SANDBOX_CLIENT_SECRET_FILE " + reason}, problems(t, err))
	}
	inFile = variables()
	delete(inFile, "DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS")
	inFile["DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS_FILE"] = path
	write("\ufeffcanary-new\r\ncanary-old\r\n")
	got, err := load(inFile)
	require.NoError(t, err)
	assert.EqualExportedValues(t, want, got)

	got, err = loadFile(t, "\ufeff"+theFile+"\r\n")
	require.NoError(t, err)
	assert.EqualExportedValues(t, want, got)
	_, err = loadFile(t, "\xff\xfe{\x00}\x00")
	assert.ErrorContains(t, err, "dispensary.json is encoded in UTF-16: save it as UTF-8")
}

// problems returns the lines of an error. Each line must be an ArgumentError without a secret.
func problems(t *testing.T, err error) []string {
	t.Helper()
	require.ErrorIs(t, err, api.ErrArgument)
	assert.NotContains(t, err.Error(), "canary")
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, strings.TrimPrefix(line, "dispensary: "))
	}
	count := 0
	for _, one := range leaves(err) {
		var argument *api.ArgumentError
		if assert.True(t, errors.As(one, &argument), one.Error()) {
			count++
		}
	}
	assert.Equal(t, len(lines), count)
	return lines
}

func leaves(err error) (all []error) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, one := range several.Unwrap() {
		all = append(all, leaves(one)...)
	}
	return all
}

func TestLoadReportsUnusableClinicKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"  ": "is blank", "canary\x00": "contains a line break or another control character"} {
		all := variables()
		all["DISPENSARY_US_SANDBOX_CLINIC_KEY"] = key
		_, err := load(all)
		assert.Equal(t, []string{"DISPENSARY_US_SANDBOX_CLINIC_KEY " + want}, problems(t, err))
	}
}

// Load reports all problems at once, with the names of the variables.
func TestLoadReportsAllProblems(t *testing.T) {
	t.Parallel()
	broken := map[string]string{
		"DISPENSARY_STORE": "canary:", "DISPENSARY_SEAL_KEYS": "2026:canary", "DISPENSARY_STATE_KEYS": "canary",
		"DISPENSARY_US_SANDBOX_CLIENT_ID": "id", "DISPENSARY_US_SANDBOX_BASE_URL": "http://canary.example",
		"DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS": "canary", "DISPENSARY_US_SANDBOX_WEBHOOK_CHALLENGE": "canary",
		"DISPENSARY_US_SANDBOX_RATE_LIMIT": "5m",
		"DISPENSARY_CA_SANDBOX_CLINIC_KEY": "canary", "DISPENSARY_CA_SANDBOX_SCOPES": "clinic:reed",
		"DISPENSARY_CA_SANDBOX_WEBHOOK_CHALLENGE": "canary", "DISPENSARY_CA_SANDBOX_CLIENT_SECRET": "canary with space",
	}
	partial, err := load(broken)
	said := problems(t, err)
	for _, want := range []string{
		"DISPENSARY_US_SANDBOX_BASE_URL must use HTTPS", "DISPENSARY_US_SANDBOX_AUTH_URL is empty",
		"DISPENSARY_US_SANDBOX_CLIENT_SECRET is empty", "DISPENSARY_US_SANDBOX_REDIRECT_URL is empty",
		"DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS[0] equals Challenge",
		"DISPENSARY_US_SANDBOX_RATE_LIMIT must be a number of requests and a period",
		"DISPENSARY_CA_SANDBOX_BASE_URL is empty", "DISPENSARY_CA_SANDBOX_AUTH_URL is empty",
		"DISPENSARY_CA_SANDBOX_CLIENT_ID is empty", "DISPENSARY_CA_SANDBOX_CLIENT_SECRET contains space", "DISPENSARY_CA_SANDBOX_REDIRECT_URL is empty",
		"DISPENSARY_CA_SANDBOX_WEBHOOK_SECRETS is empty",
		"DISPENSARY_STORE must begin with one of postgres:, mysql:, sqlite:, memory:",
		"DISPENSARY_INBOX is empty: it must begin with one of postgres:, sqlite:, memory:",
		"DISPENSARY_SEAL_KEYS cannot be used", "DISPENSARY_STATE_KEYS[0] is shorter than 32 bytes",
	} {
		assert.Condition(t, func() bool {
			for n, one := range said {
				if strings.HasPrefix(one, want) {
					said = append(said[:n:n], said[n+1:]...)
					return true
				}
			}
			return false
		}, want)
	}
	assert.Empty(t, said)
	assert.Equal(t, "id", partial.Applications[0].ClientID, "settings without a problem")
}

func TestProblemsNameSettings(t *testing.T) {
	t.Parallel()
	_, err := load(nil)
	assert.ElementsMatch(t, []string{
		"DISPENSARY_<REGION>_<STAGE>_BASE_URL is empty: no environment is configured, such as us/sandbox",
		"DISPENSARY_STORE is empty: it must begin with one of postgres:, mysql:, sqlite:, memory:",
		"DISPENSARY_SEAL_KEYS is empty, but tokens and events are stored encrypted",
	}, problems(t, err))
	_, err = loadFile(t, `{"environments": {"us/sandbox": {"client_id": "id", "auth_url": "https://a.example", "base_url": "https://a.example",
		"redirect_url": "https://a.example/callback"}}, "store": "memory:"}`)
	assert.Equal(t, []string{"environments.us/sandbox.client_secret is empty"}, problems(t, err))
	config := byHand()
	config.Applications[0].ClientSecret, config.Applications[1].Site.BaseURL, config.Store = dispensary.Secret{}, "", dispensary.Secret{}
	config.Applications = append(config.Applications, config.Applications[1], integration.Application{})
	config.Applications[2].Site.BaseURL = "https://us.platform.example/api"
	said := problems(t, config.Check())
	for _, want := range []string{
		"integration.Config.Applications[ca/production].ClientSecret is empty", "integration.Config.Applications[us/sandbox].Site.BaseURL is empty",
		"integration.Config.Applications contains two applications of us/sandbox", "integration.Config.Applications[none].Environment is empty",
		"integration.Config.Store is empty: it must begin with one of postgres:, mysql:, sqlite:, memory:",
	} {
		assert.Contains(t, said, want)
	}
}

func TestRateLimitIsValidated(t *testing.T) {
	t.Parallel()
	config := byHand()
	for text, valid := range map[string]bool{
		"": true, "5000/5m": true, "1/1s": true, "5000": false, "/5m": false, "5000/": false, "5000/5": false,
		"0/5m": false, "-1/5m": false, "5000/0s": false, "5000/-5m": false, "5000/500ms": false, "5000/5m/x": false, "5 000/5m": false,
	} {
		config.Applications[0].RateLimit = text
		if err := config.Check(); valid {
			assert.NoError(t, err, text)
		} else {
			assert.ErrorContains(t, err, "integration.Config.Applications[ca/production].RateLimit must be", text)
		}
	}
}

func TestURLsAreValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ variable, value, want string }{
		"PostgreSQL":           {"DISPENSARY_STORE", "postgresql://db.example/ehr", ""},
		"MySQL":                {"DISPENSARY_STORE", "mysql:ehr:canary@tcp(db.example)/ehr", ""},
		"SQLite as a URL":      {"DISPENSARY_STORE", "sqlite:///var/lib/ehr.db", ""},
		"invalid port":         {"DISPENSARY_STORE", "postgres://ehr:canary@db.example:canary/ehr", "DISPENSARY_STORE is not a valid PostgreSQL URL"},
		"no database":          {"DISPENSARY_STORE", "mysql:ehr:canary@tcp(db.example)", "DISPENSARY_STORE is not a valid data source name of the MySQL driver"},
		"no file":              {"DISPENSARY_STORE", "sqlite:", "DISPENSARY_STORE must name a file, such as sqlite:/var/lib/ehr/dispensary.db"},
		"SQLite in memory":     {"DISPENSARY_INBOX", "sqlite::memory:", "DISPENSARY_INBOX must name a file, such as sqlite:/var/lib/ehr/dispensary.db"},
		"path":                 {"DISPENSARY_INBOX", "/var/lib/canary.db", "DISPENSARY_INBOX must begin with one of postgres:, sqlite:, memory:"},
		"MySQL for an inbox":   {"DISPENSARY_INBOX", "mysql:canary", "DISPENSARY_INBOX must begin with one of postgres:, sqlite:, memory:"},
		"memory in production": {"DISPENSARY_INBOX", "memory:", "DISPENSARY_INBOX must not be memory: in production, because the data ends with the process"},
		"memory with a name":   {"DISPENSARY_INBOX", "memory:canary", "DISPENSARY_INBOX must be memory: without a name"},
		"no keys":              {"DISPENSARY_SEAL_KEYS", "", "DISPENSARY_SEAL_KEYS is empty, but tokens and events are stored encrypted"},
		"tab in redirect URL":  {"DISPENSARY_US_SANDBOX_REDIRECT_URL", "https://ehr.example/\tcanary", "DISPENSARY_US_SANDBOX_REDIRECT_URL is not an absolute URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := variables()
			changed[c.variable] = c.value
			_, err := load(changed)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			assert.Equal(t, []string{c.want}, problems(t, err))
		})
	}
}

// An unknown key, a repeated key and a value of the wrong type are problems.
func TestLoadFileReportsUnknownKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"misspelt":         {`"clinic_key"`, `"clinick_ey"`, []string{"environments.us/sandbox.clinick_ey does not exist: did you mean clinic_key?"}},
		"unknown":          {`"clinic_key"`, `"zzzzzzzz"`, []string{"environments.us/sandbox.zzzzzzzz does not exist"}},
		"global":           {`"inbox":`, `"inbx":`, []string{"inbx does not exist: did you mean inbox?", "inbox is empty: it must begin with one of postgres:, sqlite:, memory:"}},
		"environment":      {`"ca/production"`, `"ca/prodution"`, []string{"environments.ca/prodution does not exist: did you mean ca/production?"}},
		"number":           {`"clinic_key": "canary-key"`, `"clinic_key": 5`, []string{"environments.us/sandbox.clinic_key is not a string"}},
		"string":           {`"scopes": ["clinic:read", "patients:read"]`, `"scopes": "clinic:read"`, []string{"environments.us/sandbox.scopes is not an array of strings"}},
		"twice":            {`"clinic_key"`, `"client_id": "canary", "clinic_key"`, []string{"environments.us/sandbox.client_id appears twice"}},
		"array of numbers": {`"scopes": ["clinic:read", "patients:read"]`, `"scopes": [1]`, []string{"environments.us/sandbox.scopes is not an array of strings"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, theFile, c.old)
			_, err := loadFile(t, strings.Replace(theFile, c.old, c.new, 1))
			assert.ElementsMatch(t, c.want, problems(t, err))
		})
	}
	_, err := loadFile(t, `{"environments": []}`)
	assert.Contains(t, problems(t, err), "environments is not an object")
	_, err = loadFile(t, "{\n\"store\": canary\n}")
	require.ErrorContains(t, err, "line 2")
	assert.NotContains(t, err.Error(), "canary")
	_, err = integration.LoadFile(filepath.Join(t.TempDir(), "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(theFile))
	f.Add([]byte(`{"environments": {"us/sandbox": {}, "us/sandbox": null}}`))
	f.Add([]byte(`[]`))
	f.Add([]byte(``))
	path := filepath.Join(f.TempDir(), "dispensary.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		config, err := integration.LoadFile(path)
		if err == nil {
			require.NoError(t, config.Check())
		}
	})
}

func TestLoadProfileReadsOneProfile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.json")
	profile := func(name, text string) error {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		config, err := integration.LoadProfile(path, name)
		if err == nil {
			assert.EqualExportedValues(t, byHand(), config)
		}
		return err
	}
	both := `{"profiles": {"live": ` + theFile + `, "empty": {}}}`
	require.NoError(t, profile("live", both))
	require.EqualError(t, profile("lvie", both), "integration: "+path+": dispensary: profiles.lvie does not exist: did you mean live?")
	require.ErrorContains(t, profile("empty", both), "environments is empty")
	require.ErrorContains(t, profile("live", theFile), "is not of the form")
	require.ErrorContains(t, profile("live", `{"profiles": {"live": 5}}`), "is not an object")
	require.ErrorContains(t, profile("live", `{"profiles": canary}`), "line 1")
	_, err := integration.LoadProfile(path+".none", "live")
	require.ErrorIs(t, err, os.ErrNotExist)
}
