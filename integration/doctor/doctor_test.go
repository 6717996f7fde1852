package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// fault is one fault of an integration.
type fault struct {
	name    string
	options []dispensarytest.Option
	plant   func(*fixture)

	row    string
	status doctor.Status
	fix    string // part of the row's fix

	// also are other rows with the same fault.
	also []string
}

// nowhere is a URL without a server.
const nowhere = "https://127.0.0.1:1"

var errDriver = errors.New(`dial postgres://dispensary:pa55w0rd@db.internal/tokens: broken`)

var faults = []fault{
	{name: "plain HTTP", plant: func(f *fixture) { f.config.OAuth.Site.BaseURL = "http://platform.example/api" },
		row: "site address", status: doctor.StatusFail, fix: "https"},
	{name: "no server", plant: func(f *fixture) { f.config.OAuth.Site.BaseURL = nowhere + "/api" },
		row: "site address", status: doctor.StatusFail, fix: "firewall"},
	{name: "not the platform", plant: func(f *fixture) {
		other := httptest.NewServer(http.NotFoundHandler())
		f.t.Cleanup(other.Close)
		f.config.OAuth.Site.BaseURL, f.config.OAuth.Transport = other.URL, other.Client().Transport
	}, row: "site address", status: doctor.StatusFail, fix: "including /api"},
	{name: "proxy responds", plant: func(f *fixture) { f.platform.Fault(model.Fault{Effect: model.EffectProxyError}) },
		row: "site address", status: doctor.StatusFail, fix: "proxy"},
	{name: "platform certificate not trusted", plant: func(f *fixture) { f.config.OAuth.Transport = new(http.Transport) },
		row: "TLS", status: doctor.StatusFail, fix: "do not disable certificate verification"},
	{name: "platform certificate expired", plant: func(f *fixture) {
		address, client := f.certificate(time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))
		f.config.OAuth.Site.BaseURL, f.config.OAuth.Transport = address, client.Transport
	}, row: "TLS", status: doctor.StatusFail, fix: "root certificates"},
	{name: "six minutes ahead", plant: func(f *fixture) { f.shift(6 * time.Minute) },
		row: "clock", status: doctor.StatusFail, fix: "time server", also: []string{"webhook signature"}},
	{name: "six minutes behind", plant: func(f *fixture) { f.shift(-6 * time.Minute) },
		row: "clock", status: doctor.StatusFail, fix: "time server", also: []string{"webhook signature"}},
	{name: "one minute behind", plant: func(f *fixture) { f.shift(-time.Minute) },
		row: "clock", status: doctor.StatusWarn, fix: "time server"},

	{name: "wrong client secret", plant: func(f *fixture) { f.config.OAuth.ClientSecret = api.NewSecret("wr0ng-s3cret") },
		row: "client credentials", status: doctor.StatusFail, fix: "developer dashboard of this environment"},
	{name: "credentials of another environment", plant: func(f *fixture) {
		canada := dispensarytest.New(f.t, dispensarytest.WithEnvironment(api.CanadaSandbox), dispensarytest.WithInMemory()).Application()
		f.config.OAuth.ClientID, f.config.OAuth.ClientSecret = canada.ClientID, api.NewSecret(canada.ClientSecret)
	}, row: "client credentials", status: doctor.StatusFail, fix: "each region and stage has its own"},
	{name: "no client secret", plant: func(f *fixture) { f.config.OAuth.ClientSecret = api.Secret{} },
		row: "client credentials", status: doctor.StatusFail, fix: "correct the named setting"},
	{name: "redirect URL with an extra slash", plant: func(f *fixture) { f.config.OAuth.RedirectURL += "/" },
		row: "redirect address", status: doctor.StatusFail, fix: "exactly the redirect URL"},

	{name: "not connected", plant: func(f *fixture) { f.config.User = "nobody" },
		row: "token", status: doctor.StatusFail, fix: "connect again"},
	{name: "marked", plant: func(f *fixture) { f.mark(user, tokenstore.ReasonInvalidGrant) },
		row: "token", status: doctor.StatusFail, fix: "connect again", also: []string{"store users"}},
	{name: "added scopes in config", plant: func(f *fixture) {
		f.save(func(token *oauth.Token) { token.ConfiguredScope = api.ScopeCatalogRead })
		f.config.OAuth.Scopes = []string{api.ScopeCatalogRead, api.ScopeClinicRead}
	}, row: "token", status: doctor.StatusFail, fix: "connect again"},
	{name: "key lost", plant: func(f *fixture) { f.config.Store = f.sealed(f.keys()) },
		row: "token", status: doctor.StatusFail, fix: "SealKeys"},
	{name: "token of another environment", plant: func(f *fixture) {
		inner := f.config.Store
		f.config.Store = store{Store: inner, load: func(r tokenstore.Record) tokenstore.Record {
			r.Token.Environment = api.CanadaSandbox
			return r
		}}
	}, row: "token", status: doctor.StatusFail, fix: "under its own key", also: []string{"store sealed"}},
	{name: "missing scope", options: []dispensarytest.Option{dispensarytest.WithScopes(api.ScopeCatalogRead, api.ScopePatientsRead)},
		plant: func(*fixture) {}, row: "token scopes", status: doctor.StatusFail, fix: "add the scopes to the application"},
	{name: "unknown scopes", plant: func(f *fixture) { f.save(func(token *oauth.Token) { token.Scope = "" }) },
		row: "token scopes", status: doctor.StatusWarn, fix: "compare the scopes"},
	{name: "revoked", plant: func(f *fixture) { f.platform.Tokens.InvalidateAll() },
		row: "token refresh", status: doctor.StatusFail, fix: "connect again"},
	{name: "added scopes not in config", plant: func(f *fixture) { require.NoError(f.t, f.platform.Tokens.ExtendScopes(api.ScopeClinicWrite)) },
		options: []dispensarytest.Option{dispensarytest.WithScopes(api.ScopePatients, api.ScopeCatalogRead)},
		row:     "token refresh", status: doctor.StatusFail, fix: "connect again", also: []string{"token scopes"}},
	{name: "refresh token lost", plant: func(f *fixture) { f.save(func(token *oauth.Token) { token.RefreshToken = api.Secret{} }) },
		row: "token refresh", status: doctor.StatusFail, fix: "store the whole token"},
	{name: "rotated elsewhere", options: []dispensarytest.Option{dispensarytest.WithBehavior(behavior.RefreshRotationImmediate)},
		plant: func(f *fixture) {
			record, err := f.config.Store.Load(f.t.Context(), f.key())
			require.NoError(f.t, err)
			_, err = f.client().Refresh(f.t.Context(), record.Token) // without storing the new pair
			require.NoError(f.t, err)
		}, row: "token refresh", status: doctor.StatusFail, fix: "second program"},
	{name: "token endpoint fails", plant: func(f *fixture) {
		f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "oauth.token", Skip: 1})
	}, row: "token refresh", status: doctor.StatusFail, fix: "run this again"},

	{name: "endpoint in plain HTTP", plant: func(f *fixture) { f.config.Webhook.URL = "http://ehr.example/webhooks?key=s3cret" },
		row: "webhook address", status: doctor.StatusFail, fix: "TLS"},
	{name: "endpoint without host", plant: func(f *fixture) { f.config.Webhook.URL = "/webhooks" },
		row: "webhook address", status: doctor.StatusFail, fix: "https://"},
	{name: "endpoint unreachable", plant: func(f *fixture) { f.config.Webhook.URL = nowhere + "/webhooks?key=s3cret" },
		row: "webhook address", status: doctor.StatusFail, fix: "from outside"},
	{name: "endpoint certificate not trusted", plant: func(f *fixture) { f.config.Webhook.HTTPClient = &http.Client{Transport: new(http.Transport)} },
		row: "webhook certificate", status: doctor.StatusFail, fix: "intermediate"},
	{name: "endpoint certificate expired", plant: func(f *fixture) {
		f.config.Webhook.URL, f.config.Webhook.HTTPClient = f.certificate(time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))
	}, row: "webhook certificate", status: doctor.StatusFail, fix: "public authority"},
	{name: "endpoint certificate expires soon", plant: func(f *fixture) {
		f.config.Webhook.URL, f.config.Webhook.HTTPClient = f.certificate(time.Now().Add(-48*time.Hour), time.Now().Add(5*24*time.Hour))
	}, row: "webhook certificate", status: doctor.StatusWarn, fix: "renew"},
	{name: "endpoint has no TLS", plant: func(f *fixture) {
		plain := httptest.NewServer(f.endpoint)
		f.t.Cleanup(plain.Close)
		f.config.Webhook.URL = strings.Replace(plain.URL, "http:", "https:", 1)
	}, row: "webhook certificate", status: doctor.StatusFail, fix: "install a certificate"},
	{name: "slow", plant: func(f *fixture) { f.slow(3 * time.Second) },
		row: "webhook time", status: doctor.StatusFail, fix: "acknowledge once the event is stored"},
	{name: "rather slow", plant: func(f *fixture) { f.slow(1500 * time.Millisecond) },
		row: "webhook time", status: doctor.StatusWarn, fix: "acknowledge once the event is stored"},
	{name: "timeout", plant: func(f *fixture) { f.config.Webhook.HTTPClient = &http.Client{Transport: late{}} },
		row: "webhook time", status: doctor.StatusFail, fix: "acknowledge once the event is stored"},
	{name: "redirects", plant: func(f *fixture) { f.respond(http.StatusMovedPermanently, "") },
		row: "webhook redirects", status: doctor.StatusFail, fix: "register the URL that it redirects to"},
	{name: "410", plant: func(f *fixture) { f.respond(http.StatusGone, "") },
		row: "webhook gone", status: doctor.StatusFail, fix: "503"},
	{name: "404", plant: func(f *fixture) { f.respond(http.StatusNotFound, "") },
		row: "webhook signature", status: doctor.StatusFail, fix: "route"},
	{name: "500", plant: func(f *fixture) { f.respond(http.StatusInternalServerError, "") },
		row: "webhook signature", status: doctor.StatusFail, fix: "log"},
	{name: "204", plant: func(f *fixture) { f.respond(http.StatusNoContent, "") },
		row: "webhook signature", status: doctor.StatusFail, fix: "200 or 201"},
	{name: "wrong webhook secret", plant: func(f *fixture) { f.credentials("another-s3cret", f.app.ChallengeToken) },
		row: "webhook signature", status: doctor.StatusFail, fix: "copy the webhook secret"},
	{name: "secret and challenge swapped", plant: func(f *fixture) { f.credentials(f.app.ChallengeToken, f.app.WebhookSecret) },
		row: "webhook signature", status: doctor.StatusFail, fix: "exchange the secret"},
	{name: "endpoint has the old secret only", plant: func(f *fixture) {
		f.config.Webhook.Secrets = []api.Secret{api.NewSecret("newest-s3cret"), f.config.Webhook.Secrets[0]}
	}, row: "webhook signature", status: doctor.StatusFail, fix: "both secrets"},
	{name: "endpoint rejects empty body", plant: func(f *fixture) {
		f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == 0 {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			f.endpoint.ServeHTTP(w, r)
		}))
	}, row: "webhook signature", status: doctor.StatusWarn, fix: "signed empty body"},
	{name: "endpoint clock is off", plant: func(f *fixture) {
		f.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", f.platform.Clock.Now().Add(6*time.Minute).Format(http.TimeFormat))
			w.WriteHeader(http.StatusUnauthorized)
		}))
	}, row: "webhook signature", status: doctor.StatusFail, fix: "time server"},
	{name: "no challenge", plant: func(f *fixture) {
		f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			response := httptest.NewRecorder()
			f.endpoint.ServeHTTP(response, r)
			w.WriteHeader(response.Code)
		}))
	}, row: "webhook challenge", status: doctor.StatusFail, fix: "respond with 200 or 201"},
	{name: "secret as challenge", plant: func(f *fixture) { f.credentialsOf(f.app.WebhookSecret) },
		row: "webhook challenge", status: doctor.StatusFail, fix: "new secret"},
	{name: "no verification", plant: func(f *fixture) { f.respond(http.StatusOK, `{"challenge":"`+f.app.ChallengeToken+`"}`) },
		row: "webhook forgery", status: doctor.StatusFail, fix: "raw body"},
	{name: "410 for a forged signature", plant: func(f *fixture) {
		f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			response := httptest.NewRecorder()
			f.endpoint.ServeHTTP(response, r)
			if response.Code == http.StatusUnauthorized {
				response.Code = http.StatusGone
			}
			w.WriteHeader(response.Code)
			_, _ = w.Write(response.Body.Bytes())
		}))
	}, row: "webhook forgery", status: doctor.StatusFail, fix: "401"},
	{name: "accepted old signature", plant: func(f *fixture) {
		handler, err := webhook.NewHandler(webhook.HandlerConfig{
			Environment: f.platform.Site().Environment, Secrets: f.config.Webhook.Secrets, Challenge: f.config.Webhook.Challenge,
			Inbox: f.inbox, Now: f.platform.Clock.Now, Tolerance: time.Hour,
		})
		require.NoError(f.t, err)
		f.serve(handler)
	}, row: "webhook replay", status: doctor.StatusFail, fix: "tolerance of 5 minutes"},
	{name: "rewritten body", plant: func(f *fixture) {
		f.serve(rewrite(func(body []byte) []byte {
			var value any
			if json.Unmarshal(body, &value) != nil {
				return body
			}
			again, _ := json.Marshal(value)
			return again
		}, f.endpoint))
	}, row: "webhook body", status: doctor.StatusFail, fix: "raw bytes"},
	{name: "trimmed body", plant: func(f *fixture) { f.serve(rewrite(bytes.TrimSpace, f.endpoint)) },
		row: "webhook body", status: doctor.StatusFail, fix: "raw bytes"},
	{name: "bodies are filtered", plant: func(f *fixture) {
		f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 0 {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
			f.endpoint.ServeHTTP(w, r)
		}))
	}, row: "webhook body", status: doctor.StatusFail, fix: "proxy"},

	{name: "some deliveries failed", plant: func(f *fixture) {
		f.respond(http.StatusInternalServerError, "")
		f.order(1)
		f.serve(f.endpoint)
		f.order(1)
	}, row: "delivery failures", status: doctor.StatusWarn, fix: "reconcile"},
	{name: "deliveries fail", plant: func(f *fixture) { f.failFor(2 * time.Hour) },
		row: "delivery switch-off", status: doctor.StatusWarn, fix: "delivery failures", also: []string{"delivery failures"}},
	{name: "near 24 hours", plant: func(f *fixture) { f.failFor(20 * time.Hour) },
		row: "delivery switch-off", status: doctor.StatusFail, fix: "delivery failures", also: []string{"delivery failures"}},
	{name: "disabled after 24 hours", plant: func(f *fixture) { f.failFor(30 * time.Hour) },
		row: "delivery switch-off", status: doctor.StatusFail, fix: "enable the endpoint", also: []string{"delivery failures"}},
	{name: "disabled by 410", plant: func(f *fixture) {
		f.respond(http.StatusGone, "")
		f.order(1)
		f.serve(f.endpoint)
	}, row: "delivery switch-off", status: doctor.StatusFail, fix: "503", also: []string{"delivery failures"}},
	{name: "out of order", plant: func(f *fixture) {
		patient := f.platform.Patients.All()[0].ID
		edit := func(first string) {
			_, _, err := f.platform.Patients.Update(patient, model.PatientUpdate{FirstName: &first})
			require.NoError(f.t, err)
			f.platform.Clock.Advance(time.Second)
		}
		f.respond(http.StatusInternalServerError, "")
		edit("Early")
		f.serve(f.endpoint)
		edit("Late")
		f.platform.Clock.Advance(time.Hour)
	}, row: "delivery order", status: doctor.StatusWarn, fix: "Stale"},

	{name: "inbox unreachable", plant: func(f *fixture) { f.config.Inbox, f.config.InboxErr = nil, errDriver },
		row: "inbox", status: doctor.StatusFail, fix: "database"},
	{name: "inbox closed", plant: func(f *fixture) { require.NoError(f.t, f.inbox.Close(f.t.Context())) },
		row: "inbox", status: doctor.StatusFail, fix: "database"},
	{name: "inbox has an old schema", plant: func(f *fixture) {
		f.config.Inbox, f.config.InboxErr = nil, fmt.Errorf("open: %w", &api.SchemaError{Table: "river_job"})
	},
		row: "inbox schema", status: doctor.StatusFail, fix: "may create tables"},
	{name: "events wait", plant: func(f *fixture) {
		f.config.Inbox = stats{Waiting: 12, Oldest: f.config.Now().Add(-time.Hour)}
	}, row: "inbox waiting", status: doctor.StatusWarn, fix: "handlers fail"},
	{name: "dead letters", plant: func(f *fixture) { f.config.Inbox = stats{Dead: 4000} },
		row: "inbox dead letters", status: doctor.StatusWarn, fix: "replay"},
	{name: "inbox key lost", plant: func(f *fixture) { f.config.Inbox = lost{f.inbox} },
		row: "inbox sealed", status: doctor.StatusFail, fix: "SealKeys"},
	{name: "never reconciled", plant: func(f *fixture) { f.config.Inbox = noCheckpoints{f.inbox} },
		row: "reconcile", status: doctor.StatusFail, fix: "DisableReconcile"},
	{name: "no longer reconciled", plant: func(f *fixture) { f.config.ReconcileEvery = time.Nanosecond; f.shift(time.Second) },
		row: "reconcile", status: doctor.StatusFail, fix: "log of the program"},

	{name: "database unreachable", plant: func(f *fixture) { f.config.Store, f.config.StoreErr = nil, errDriver },
		row: "store", status: doctor.StatusFail, fix: "database"},
	{name: "failing database", plant: func(f *fixture) { f.config.Store = broken{f.config.Store} },
		row: "store", status: doctor.StatusFail, fix: "database"},
	{name: "database is read-only", plant: func(f *fixture) { f.config.Store = readOnly{f.config.Store} },
		row: "store", status: doctor.StatusFail, fix: "primary"},
	{name: "old schema", plant: func(f *fixture) { f.config.Store, f.config.StoreErr = nil, fmt.Errorf("open: %w", fs.ErrNotExist) },
		row: "store schema", status: doctor.StatusFail, fix: "may create tables"},
	{name: "unsealed store", plant: func(f *fixture) {
		f.config.Store = store{Store: f.inner}
		f.connect(user)
	}, row: "store sealed", status: doctor.StatusWarn, fix: "tokenstore.Sealed"},
	{name: "plaintext AEAD", plant: func(f *fixture) {
		f.config.Store = f.sealed(seal.InsecurePlaintext{})
		f.connect(user)
	}, row: "store sealed", status: doctor.StatusWarn, fix: "tokenstore.Sealed"},
	{name: "users must authorize again", plant: func(f *fixture) {
		f.connect("user-18")
		f.mark("user-18", tokenstore.ReasonScopesExtended)
	}, row: "store users", status: doctor.StatusWarn, fix: "scopes were added"},
	{name: "lease stuck", plant: func(f *fixture) {
		record, err := f.config.Store.Load(f.t.Context(), f.key())
		require.NoError(f.t, err)
		_, err = f.config.Store.Lease(f.t.Context(), tokenstore.Lease{Key: f.key(), Version: record.Version, Owner: "a replica"}, time.Hour)
		require.NoError(f.t, err)
		f.config.LeaseTTL = 20 * time.Millisecond
	}, row: "store lease", status: doctor.StatusFail, fix: "replica that hangs"},
	{name: "clinic key never sent", options: []dispensarytest.Option{dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 2})}, plant: func(f *fixture) {
		_, err := f.platform.Clinics.RevokeKey(f.platform.ClinicKey()) // no call has used the other integration
		require.NoError(f.t, err)
		f.config.ClinicKey = api.Secret{}
	}, row: "webhook activation", status: doctor.StatusFail, fix: "configure the clinic key"},
	{name: "database without TLS", plant: func(f *fixture) { f.config.Databases[0].Private = false },
		row: "database TLS", status: doctor.StatusWarn, fix: "sslmode=verify-full"},
}

// shift moves the clock of this machine by d.
func (f *fixture) shift(d time.Duration) {
	clock := f.platform.Clock
	f.config.Now = func() time.Time { return clock.Now().Add(d) }
}

// slow delays each response of the endpoint by d.
func (f *fixture) slow(d time.Duration) {
	f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.platform.Clock.Advance(d) // first, because the endpoint sends its response before it returns
		f.endpoint.ServeHTTP(w, r)
	}))
}

// credentials configures the endpoint with a secret and a challenge token.
func (f *fixture) credentials(secret, challenge string) {
	f.receive(doctor.Webhook{Secrets: []api.Secret{api.NewSecret(secret)}, Challenge: api.NewSecret(challenge)})
}

// credentialsOf serves an endpoint with a challenge token that package webhook rejects.
func (f *fixture) credentialsOf(challenge string) {
	f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response := httptest.NewRecorder()
		f.endpoint.ServeHTTP(response, r)
		w.WriteHeader(response.Code)
		_, _ = io.WriteString(w, `{"challenge":"`+challenge+`"}`)
	}))
}

// failFor makes one event fail per hour, for a duration.
func (f *fixture) failFor(d time.Duration) {
	f.respond(http.StatusInternalServerError, "")
	for range d / time.Hour {
		f.order(1)
		f.platform.Clock.Advance(time.Hour)
	}
	f.serve(f.endpoint)
}

// late always times out.
type late struct{}

func (late) RoundTrip(*http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded }

// broken is a store whose Load fails.
type broken struct{ tokenstore.Store }

func (broken) Load(context.Context, tokenstore.Key) (tokenstore.Record, error) {
	return tokenstore.Record{}, errDriver
}

// noCheckpoints is an inbox without checkpoints.
type noCheckpoints struct{ *memoryinbox.Inbox }

func (noCheckpoints) ReadCheckpoint(context.Context, string) ([]byte, error) { return nil, nil }

// readOnly is a store that rejects writes.
type readOnly struct{ tokenstore.Store }

func (readOnly) CheckWrite(context.Context) error { return errDriver }

// lost is an inbox whose bodies cannot be decrypted.
type lost struct{ engine.Engine }

func (lost) List(context.Context, engine.Filter, engine.Page) ([]engine.Event, error) {
	return make([]engine.Event, 1), nil
}

func (lost) Open(context.Context, webhook.Key) (engine.Event, error) {
	return engine.Event{}, webhook.ErrBodyLost
}

// Each fault appears in its row with its fix, and in no unrelated row. The report contains no
// secret.
func TestFaultsAppearInTheirRows(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(faults), 30)
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, fault.options...)
			fault.plant(f)
			report := f.run()
			text := f.texts(report)
			found := map[string]bool{}
			for _, row := range report.Rows {
				if row.Status == doctor.StatusPass || row.Status == doctor.StatusSkip {
					assert.Empty(t, row.Consequence+row.Fix, row.Check)
					continue
				}
				assert.NotEmpty(t, row.Seen, row.Check)
				assert.NotEmpty(t, row.Consequence, row.Check)
				found[row.Check] = true
				if row.Check == fault.row {
					assert.Equal(t, fault.status, row.Status, text)
					assert.Contains(t, row.Fix, fault.fix)
				}
			}
			want := map[string]bool{fault.row: true}
			for _, name := range fault.also {
				want[name] = true
			}
			assert.Equal(t, want, found, text)
			f.requireSilent(text)
		})
	}
}

// texts returns all printed forms of a report.
func (f *fixture) texts(report doctor.Report) string {
	f.t.Helper()
	var out bytes.Buffer
	require.NoError(f.t, json.NewEncoder(&out).Encode(report))
	fmt.Fprintf(&out, "%v %+v", report, report)
	return out.String()
}

// requireSilent fails if a text contains a secret or personal data.
func (f *fixture) requireSilent(text string) {
	f.t.Helper()
	f.platform.CheckNoLeak(f.t, text)
	for _, secret := range []string{f.app.ClientSecret, f.app.WebhookSecret, f.app.ChallengeToken, f.platform.ClinicKey(), "pa55w0rd", "s3cret"} {
		assert.NotContains(f.t, text, secret)
	}
	for _, credential := range f.platform.Tokens.Credentials() {
		assert.NotContains(f.t, text, credential.Value)
	}
}

// A healthy integration passes all checks with 100 seeds and with every undocumented behavior of
// the fake.
func TestHealthyIntegrationPasses(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	var variants []behavior.Variant
	for _, choice := range behavior.Choices() {
		variants = append(variants, choice.Variants...)
	}
	for i := range max(100, len(variants)) {
		variant := variants[i%len(variants)]
		t.Run(fmt.Sprintf("%d %s", i, variant), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{Seed: uint64(i)}), dispensarytest.WithBehavior(variant))
			accepted, deliveries := f.accepted.Load(), len(f.platform.Webhooks.Deliveries())
			report := f.run()
			text := f.texts(report)
			for _, row := range report.Rows {
				assert.Equal(t, doctor.StatusPass, row.Status, text)
			}
			f.requireSilent(text)

			assert.Equal(t, accepted, f.accepted.Load(), "events in the inbox")
			assert.Len(t, f.platform.Webhooks.Deliveries(), deliveries, "deliveries of the platform")
			f.requireGood()
		})
	}
}

// requireGood fails unless the stored pair works.
func (f *fixture) requireGood() {
	f.t.Helper()
	record, err := f.config.Store.Load(f.t.Context(), f.key())
	require.NoError(f.t, err)
	_, err = f.client().Refresh(f.t.Context(), record.Token)
	require.NoError(f.t, err)
}
