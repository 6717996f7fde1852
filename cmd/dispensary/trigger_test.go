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

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
)

// withControl serves the control API of the fixture's platform.
func (f *fixture) withControl() *fixture {
	f.t.Helper()
	server := httptest.NewServer(http.StripPrefix("/control", control.New(f.platform, control.Options{})))
	f.t.Cleanup(server.Close)
	f.variables[controlVariable] = server.URL + "/control"
	return f
}

func (f *fixture) trigger(args ...string) triggered {
	f.t.Helper()
	var made triggered
	f.document("trigger", &made, args...)
	return made
}

func TestTriggerCreatesEveryEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withControl()
	patient := f.trigger("patient.created", "-f", "first_name=Ada", "-f", "email=ada@example.com").ObjectID
	made, known := f.platform.Patients.Get(patient)
	require.True(t, known)
	assert.Equal(t, "Ada", made.FirstName)
	plan := f.trigger("treatment_plan.created", "--patient", patient).ObjectID
	for _, args := range [][]string{
		{"patient.updated", "--patient", patient}, {"order.placed", "--patient", patient, "--plan", plan},
		{"treatment_plan.updated", "--plan", plan}, {"treatment_plan.recommendation.updated"},
		{"product.created"}, {"product.updated"}, {"product.description.updated"},
		{"clinic_key.revoked"}, {"clinic_key.activated"},
	} {
		made := f.trigger(args...)
		assert.Equal(t, events.Type(args[0]), made.Type)
		last := f.platform.Events()[len(f.platform.Events())-1]
		assert.Equal(t, args[0], last.Type)
		assert.Equal(t, last.ID, made.EventID)
	}
	orders := f.platform.Orders.All()
	assert.Equal(t, []string{plan}, orders[len(orders)-1].PlanIDs)
	assert.Len(t, f.platform.Events(), len(actions))
}

func TestTriggerExplainsMissingWebhook(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withControl()
	require.NoError(t, f.platform.SetBehavior("delivery-conditions=enforced"))
	require.NoError(t, f.platform.Webhooks.Register("http://"+freeAddress(t)+"/webhooks"))
	_, stderr := f.ran("trigger", "order.placed")
	assert.Equal(t, "The platform sends no webhook: no live token of the clinic has the scope patients:order_history. \"dispensary listen\" forwards the event nevertheless.\n", stderr)
	f.withToken()
	_, stderr = f.ran("trigger", "order.placed")
	assert.Empty(t, stderr)
}

func TestTriggerActivatesIntegration(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dispensarytest.WithBehavior("integration-activation=first-key")).withControl()
	require.NoError(t, f.platform.Webhooks.Register("http://"+freeAddress(t)+"/webhooks"))
	_, stderr := f.ran("trigger", "order.placed")
	assert.Contains(t, stderr, "no integration of the clinic is active: ")
	assert.Contains(t, stderr, "dispensary trigger clinic_key.activated")
	for _, kind := range []string{"clinic_key.activated", "order.placed"} {
		_, stderr := f.ran("trigger", kind)
		assert.Empty(t, stderr)
	}
}

func TestTriggerRejectsArguments(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withControl()
	f.rejected("trigger needs one event type", "trigger")
	newFixture(t).rejected("--control or DISPENSARY_CONTROL_URL is required", "trigger", "order.placed")
	f.rejected(`there is no event type "nothing", only clinic_key.activated, `, "trigger", "nothing")
	f.rejected("--field must be NAME=TEXT", "trigger", "order.placed", "-f", "x")
	f.rejected("--control must be a URL", "trigger", "order.placed", "--control", "localhost")
	f.rejected("--control: no control API responds", "trigger", "order.placed", "--control", "http://"+freeAddress(t)+"/control")
	for _, status := range []int{http.StatusOK, http.StatusTeapot} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(other.Close)
		code, _, stderr := f.run("trigger", "order.placed", "--control", other.URL)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, "--control is not a control API")
		assert.NotContains(t, stderr, "may have been applied", "the request was a read")
	}
	f.fails("--patient: the platform has no patient 999999", "trigger", "order.placed", "--patient", "999999")
	f.fails("the fake platform rejects the action: ", "trigger", "patient.created", "-f", "clinic_id=none")
	code, _, stderr := f.run("trigger", "patient.created", "-f", "canary=1")
	assert.Equal(t, exitFailed, code, stderr)
	assert.Empty(t, f.platform.Events())
}

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
	deliveryFile, secret := file("delivery.http", delivery), file("secret", []byte(app.WebhookSecret+"\n"))
	other, challenge := file("other", []byte("another")), file("challenge", []byte(app.ChallengeToken))
	head, body, _ := bytes.Cut(delivery, []byte("\r\n\r\n"))
	_, headers, _ := bytes.Cut(head, []byte("\r\n"))
	headersFile, bodyFile := file("headers", headers), file("body.json", body)
	changed := file("changed.json", append(body, '\n'))
	for name, c := range map[string]struct {
		want string // the reason
		args []string
	}{
		"whole": {"valid", []string{deliveryFile, "--secret-file", secret}},
		"marked": {"valid", []string{
			bodyFile, "--headers", file("marked-headers", append([]byte("\ufeff"), headers...)),
			"--secret-file", file("marked-secret", []byte("\ufeff"+app.WebhookSecret+"\r\n")),
		}},
		"parts":   {"valid", []string{bodyFile, "--headers", headersFile, "--secret-file", secret}},
		"other":   {"wrong_secret", []string{deliveryFile, "--secret-file", other}},
		"swapped": {"challenge", []string{deliveryFile, "--secret-file", other, "--challenge-file", secret}},
		"changed": {"body_changed", []string{changed, "--headers", headersFile, "--secret-file", secret}},
		"old":     {"too_old", []string{deliveryFile, "--secret-file", secret, "--received", time.Now().Add(time.Hour).Format(time.RFC3339)}},
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
	_, out, _ = f.run("verify", deliveryFile, "--secret-file", challenge)
	assert.True(t, strings.HasPrefix(out, "\x1b[31mwrong_secret\x1b[0m: "), out)
	f.terminal = false
	for _, text := range []string{app.WebhookSecret, app.ChallengeToken, "Canary"} {
		assert.NotContains(t, out, text)
	}

	f.rejected("verify needs the name of one file", "verify")
	f.rejected("no such file", "verify", "none.http")
	f.rejected("add --headers", "verify", bodyFile)
	f.rejected(`lines of the form "Name: value"`, "verify", bodyFile, "--headers", bodyFile)
	f.rejected("--headers: open none", "verify", bodyFile, "--headers", "none")
	f.rejected("--secret-file: open none", "verify", deliveryFile, "--secret-file", "none")
	f.rejected("the file is empty", "verify", deliveryFile, "--secret-file", file("empty", nil))
	f.rejected("the file is encoded in UTF-16: save it as UTF-8", "verify", deliveryFile, "--secret-file", file("wide", []byte("\xff\xfes\x00")))
	f.rejected("--received must be a time", "verify", deliveryFile, "--received", "yesterday")
	f.variables = map[string]string{}
	f.rejected("--secret-file", "verify", deliveryFile)
}
