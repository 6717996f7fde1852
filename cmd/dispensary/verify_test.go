package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// saved lets the platform deliver an event and returns the received request.
func (f *fixture) saved() []byte {
	f.t.Helper()
	got := make(chan []byte, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		dump, err := httputil.DumpRequest(r, true)
		assert.NoError(f.t, err)
		got <- dump
	}))
	f.t.Cleanup(receiver.Close)
	require.NoError(f.t, f.platform.Webhooks.Register(receiver.URL))
	_, _, err := f.platform.Patients.Create(model.PatientCreate{FirstName: "Canary", LastName: "Canary", Email: "canary@example.com"})
	require.NoError(f.t, err)
	return <-got
}

func TestVerifyExplainsDelivery(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	app := f.platform.Application()
	delivery := f.saved()
	folder := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	whole, secret := file("delivery.http", delivery), file("secret", []byte(app.WebhookSecret+"\n"))
	other, challenge := file("other", []byte("another")), file("challenge", []byte(app.ChallengeToken))
	head, body, _ := bytes.Cut(delivery, []byte("\r\n\r\n"))
	_, headers, _ := bytes.Cut(head, []byte("\r\n"))
	headersFile, bodyFile := file("headers", headers), file("body.json", body)
	changed := file("changed.json", append(body, '\n'))
	for name, c := range map[string]struct {
		want string // the reason
		args []string
	}{
		"whole": {"valid", []string{whole, "--secret-file", secret}},
		"marked": {"valid", []string{
			bodyFile, "--headers", file("marked-headers", append([]byte("\ufeff"), headers...)),
			"--secret-file", file("marked-secret", []byte("\ufeff"+app.WebhookSecret+"\r\n")),
		}},
		"parts":   {"valid", []string{bodyFile, "--headers", headersFile, "--secret-file", secret}},
		"other":   {"wrong_secret", []string{whole, "--secret-file", other}},
		"swapped": {"challenge", []string{whole, "--secret-file", other, "--challenge-file", secret}},
		"changed": {"body_changed", []string{changed, "--headers", headersFile, "--secret-file", secret}},
		"old":     {"too_old", []string{whole, "--secret-file", secret, "--received", time.Now().Add(time.Hour).Format(time.RFC3339)}},
	} {
		code, out, stderr := f.run(append([]string{"verify", "--json"}, c.args...)...)
		assert.Equal(t, 1, assertDocuments(t, "verify", out), name)
		assert.Contains(t, out, `"reason":"`+c.want+`"`, name)
		if c.want == "valid" {
			assert.Equal(t, exitDone, code, stderr)
			continue
		}
		assert.Equal(t, exitFailed, code, name)
		assert.Equal(t, "dispensary: the delivery is rejected\n", stderr)
	}

	f.variables["DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS"] = "another " + app.WebhookSecret
	f.variables["DISPENSARY_US_SANDBOX_WEBHOOK_CHALLENGE"] = app.ChallengeToken
	code, out, stderr := f.runWith(t.Context(), string(delivery), "verify", "-")
	assert.Equal(t, exitDone, code, stderr)
	assert.Equal(t, "valid: the signature is correct\n", out, "with the configuration, from stdin")
	f.terminal = true
	_, out, _ = f.run("verify", whole, "--secret-file", challenge)
	assert.True(t, strings.HasPrefix(out, "\x1b[31mwrong_secret\x1b[0m: "), out)
	f.terminal = false
	for _, text := range []string{app.WebhookSecret, app.ChallengeToken, "Canary"} {
		assert.NotContains(t, out, text)
	}

	f.refused("verify needs the name of one file", "verify")
	f.refused("no such file", "verify", "none.http")
	f.refused("add --headers", "verify", bodyFile)
	f.refused(`lines of the form "Name: value"`, "verify", bodyFile, "--headers", bodyFile)
	f.refused("--headers: open none", "verify", bodyFile, "--headers", "none")
	f.refused("--secret-file: open none", "verify", whole, "--secret-file", "none")
	f.refused("the file is empty", "verify", whole, "--secret-file", file("empty", nil))
	f.refused("the file is encoded in UTF-16: save it as UTF-8", "verify", whole, "--secret-file", file("wide", []byte("\xff\xfes\x00")))
	f.refused("--received must be a time", "verify", whole, "--received", "yesterday")
	f.variables = map[string]string{}
	f.refused("--secret-file", "verify", whole)
}
