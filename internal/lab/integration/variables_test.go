package integration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/integration"
)

func load(variables map[string]string) (integration.Config, error) {
	return integration.Load(environ(variables))
}

// environ returns variables in the form of os.Environ.
func environ(variables map[string]string) (all []string) {
	for name, value := range variables {
		all = append(all, name+"="+value)
	}
	return all
}

func TestLoadReportsUnknownVariables(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"DISPENSARY_STOER":                      ": did you mean DISPENSARY_STORE?",
		"DISPENSARY_SEALKEYS_FILE":              ": did you mean DISPENSARY_SEAL_KEYS_FILE?",
		"DISPENSARY_US_SANDBOX_CLIENT_SECERT":   ": did you mean DISPENSARY_US_SANDBOX_CLIENT_SECRET?",
		"DISPENSARY_US_SANBOX_WEBHOOK_SECRETS":  ": did you mean DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS?",
		"DISPENSARY_CA_PRODUCTION_WEBHOOK_KEYS": ": did you mean DISPENSARY_CA_PRODUCTION_WEBHOOK_SECRETS?",
		"DISPENSARY_ACCESS_TOKEN_FILE":          ": did you mean DISPENSARY_ACCESS_TOKEN?",
		"Dispensary_Inbox":                      ": did you mean DISPENSARY_INBOX?",
		"DISPENSARY_LISTEN":                     "",
		"DISPENSARY_":                           "",
	} {
		all := variables()
		all[name] = "canary"
		_, err := load(all)
		assert.Equal(t, []string{name + " is not a variable of this library" + want}, problems(t, err))
	}
	all := variables()
	all["DISPENSARY_STOER"], all["DISPENSARY_INBX"], all["DISPENSARY_US_SANDBOX_RATE_LIMIT"] = "canary", "canary", "canary"
	_, err := load(all)
	assert.Len(t, problems(t, err), 3)
}

func TestLoadIgnoresForeignVariables(t *testing.T) {
	t.Parallel()
	all := variables()
	for _, name := range []string{
		"PATH", "DISPENSARYSTORE", "DISPENSARY_TEST_POSTGRES", "DISPENSARY_ENVIRONMENT", "DISPENSARY_ACCESS_TOKEN", "DISPENSARY_CLINIC_KEY", "DISPENSARY_CONTROL_URL",
		"DISPENSARY_SERVICE_HOST", "DISPENSARY_SERVICE_PORT", "DISPENSARY_SERVICE_PORT_HTTPS", "DISPENSARY_PORT", "DISPENSARY_PORT_443_TCP",
		"DISPENSARY_PORT_443_TCP_PROTO", "DISPENSARY_PORT_443_TCP_PORT", "DISPENSARY_PORT_443_TCP_ADDR", "DISPENSARY_FAKE_SERVICE_HOST", "DISPENSARY_FAKE_PORT_53_UDP_ADDR",
	} {
		all[name] = "canary"
	}
	all["DISPENSARY_UNKNOWN"] = ""
	_, err := load(all)
	require.NoError(t, err)
}

func TestLoadReportsQuotedAndUnexpandedValues(t *testing.T) {
	t.Parallel()
	secret, hooks := "DISPENSARY_US_SANDBOX_CLIENT_SECRET", "DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS"
	for _, value := range []string{`"canary"`, "'canary'", "`canary`", "“canary”", "„canary“", "‘canary’", "«canary»", `""`} {
		for _, name := range []string{secret, hooks, "DISPENSARY_STORE", "DISPENSARY_STATE_KEYS", "DISPENSARY_US_SANDBOX_CLINIC_KEY"} {
			all := variables()
			all[name] = value
			_, err := load(all)
			assert.Equal(t, []string{name + " has quotes around it"}, problems(t, err), value)
		}
	}
	all := variables()
	all[hooks], all[secret] = `canary-1 "canary-2"`, "${OTHER}"
	_, err := load(all)
	assert.ElementsMatch(t, []string{hooks + " has quotes around it", secret + " is the unexpanded name of another variable"}, problems(t, err))
	for _, value := range []string{`can"ary`, `"canary`, `canary'`, `"`, "“", `"canary'`, "can$ary", "$OTHER", "${OTHER}x"} {
		all := variables()
		all[secret] = value
		c, err := load(all)
		require.NoError(t, err, value)
		assert.Equal(t, value, c.Applications[len(c.Applications)-1].ClientSecret.Reveal())
	}
}

func TestQuotesInFileBelongToItsForm(t *testing.T) {
	t.Parallel()
	set := func(line string) (integration.Config, error) {
		all := variables()
		delete(all, "DISPENSARY_US_SANDBOX_CLIENT_SECRET")
		return integration.Load(environ(all), envFile(t, "DISPENSARY_US_SANDBOX_CLIENT_SECRET"+line))
	}
	for line, want := range map[string]string{`='"canary"'`: `"canary"`, `="'canary'"`: "'canary'", "='${OTHER}'": "${OTHER}", `="canary"`: "canary", "=$OTHER": "$OTHER"} {
		c, err := set(line)
		require.NoError(t, err, line)
		assert.Equal(t, want, c.Applications[len(c.Applications)-1].ClientSecret.Reveal(), line)
	}
	for _, line := range []string{"=`canary`", "=“canary” # from the dashboard"} {
		_, err := set(line)
		require.ErrorContains(t, err, "has quotes around it")
		assert.Len(t, problems(t, err), 1, line)
	}
}

// envFile writes a file and returns its path.
func envFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), ".env")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestLoadReadsNamedFile(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for name, value := range variables() {
		text.WriteString("export " + name + `="` + strings.ReplaceAll(value, "\n", `\n`) + "\" # a comment\r\n")
	}
	path := envFile(t, "\ufeff# a comment\n\n"+text.String()+"OTHER='begins\nends'\nnot a line of ours\n")
	config, err := integration.Load(nil, path)
	require.NoError(t, err)
	assert.EqualExportedValues(t, byHand(), config)
	_, err = integration.Load(nil)
	require.Error(t, err, "Load reads only given files")
	_, err = integration.Load(nil, path+".none")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = integration.Load(nil, envFile(t, "\xff\xfeD\x00"))
	require.ErrorContains(t, err, ".env is encoded in UTF-16: save it as UTF-8")
}

func TestLoadDecodesValuesInFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`=plain`: "plain", `= spaced  words `: "spaced  words", `=a # comment`: "a", "=a\t#comment": "a", `=a#b`: "a#b",
		`='single $HOME \n "x"' # comment`: `single $HOME \n "x"`, `="double 'x' \" \\ \$ $HOME #"`: `double 'x' " \ $ $HOME #`,
		`="a\\nb"`: `a\nb`, `="a\tb\r\n"`: "a\tb\r\n", `=a'b`: "a'b", `=a=b`: "a=b",
	} {
		config, _ := integration.Load(nil, envFile(t, "DISPENSARY_US_SANDBOX_CLIENT_ID"+text))
		if assert.Len(t, config.Applications, 1, text) {
			assert.Equal(t, want, config.Applications[0].ClientID, text)
		}
	}
	for _, text := range []string{`=`, `=""`, `= # comment`} {
		config, _ := integration.Load(nil, envFile(t, "DISPENSARY_US_SANDBOX_CLIENT_ID"+text))
		assert.Empty(t, config.Applications, text)
	}
}

func TestFileProblemsNameLines(t *testing.T) {
	t.Parallel()
	all := variables()
	for _, name := range []string{"DISPENSARY_STORE", "DISPENSARY_INBOX", "DISPENSARY_SEAL_KEYS", "DISPENSARY_STATE_KEYS"} {
		delete(all, name)
	}
	path := envFile(t, "DISPENSARY_STORE='canary\n\nDISPENSARY_INBOX : canary\nDISPENSARY_SEAL_KEYS=\"2026:canary\"canary\n"+
		"DISPENSARY_STATE_KEYS=canary\nexport DISPENSARY_STOER=canary\n")
	_, err := integration.Load(environ(all), path)
	assert.ElementsMatch(t, []string{
		"DISPENSARY_STORE in " + path + ":1 lacks the closing quote on its line",
		"DISPENSARY_INBOX in " + path + ":3 is not followed by =",
		"DISPENSARY_SEAL_KEYS in " + path + ":4 has text after its closing quote",
		"DISPENSARY_STATE_KEYS[0] in " + path + ":5 is shorter than 32 bytes",
		"DISPENSARY_STOER in " + path + ":6 is not a variable of this library: did you mean DISPENSARY_STORE?",
	}, problems(t, err))
}

func TestEnvironmentOverridesFiles(t *testing.T) {
	t.Parallel()
	all := variables()
	delete(all, "DISPENSARY_INBOX")
	all["DISPENSARY_US_SANDBOX_CLIENT_ID"] = ""
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("canary-of-file"), 0o600))
	delete(all, "DISPENSARY_US_SANDBOX_CLIENT_SECRET")
	all["DISPENSARY_US_SANDBOX_CLIENT_SECRET_FILE"] = secret
	first := envFile(t, "DISPENSARY_STORE=memory:\nDISPENSARY_US_SANDBOX_CLIENT_ID=id-first\nDISPENSARY_US_SANDBOX_CLIENT_ID=id-last\n"+
		"DISPENSARY_US_SANDBOX_CLIENT_SECRET=canary-of-env\n")
	second := envFile(t, "DISPENSARY_US_SANDBOX_CLIENT_ID=id-second\nDISPENSARY_INBOX=sqlite:/second.db\n")
	config, err := integration.Load(append([]string{"DISPENSARY_STORE=canary:"}, environ(all)...), first, second)
	require.NoError(t, err)
	assert.Equal(t, all["DISPENSARY_STORE"], config.Store.Reveal())
	assert.Equal(t, "sqlite:/second.db", config.Inbox.Reveal())
	assert.Equal(t, "id-last", config.Applications[1].ClientID)
	assert.Equal(t, "canary-of-file", config.Applications[1].ClientSecret.Reveal())
}
