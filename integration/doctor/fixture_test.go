package doctor_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration/doctor"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

const user = "user-17"

var silent = log.New(io.Discard, "", 0)

// fixture is a healthy integration with platform, store, endpoint and inbox. A test breaks one
// part.
type fixture struct {
	t        *testing.T
	platform *dispensarytest.Server
	config   doctor.Config
	app      model.Application
	inner    *tokenstore.MemoryStore
	inbox    *memoryinbox.Inbox
	accepted atomic.Int64 // number of calls of Accept

	// endpoint is the integrator's handler. A test can serve another handler as front.
	endpoint http.Handler
	front    atomic.Pointer[http.Handler]
}

func newFixture(t *testing.T, options ...dispensarytest.Option) *fixture {
	t.Helper()
	f := &fixture{t: t, inner: tokenstore.NewMemoryStore()}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", f.platform.Clock.Now().Format(http.TimeFormat))
		(*f.front.Load()).ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = silent
	server.StartTLS()
	t.Cleanup(server.Close)
	f.platform = dispensarytest.New(t, append([]dispensarytest.Option{
		dispensarytest.WithTLS(), dispensarytest.WithClock(dispensarytest.FrozenClock(time.Now().UTC())),
		dispensarytest.WithTuning(dispensarytest.Tuning{DeliveryClient: server.Client()}),
	}, options...)...)
	f.app = f.platform.Application()
	f.config = doctor.Config{
		OAuth: oauth.Config{
			Site: f.platform.Site(), ClientID: f.app.ClientID, ClientSecret: api.NewSecret(f.app.ClientSecret),
			RedirectURL: f.app.RedirectURI, Transport: dated{f.platform},
		},
		ClinicKey:   api.NewSecret(f.platform.ClinicKey()),
		SecretFiles: []string{filepath.Join(t.TempDir(), "config.json")},
		Databases:   []doctor.Database{{Setting: "DISPENSARY_STORE", Private: true}},
		User:        user, Operations: []string{"patients.create", "webhook_deliveries.list", "treatment_plans.create"},
		Webhook: doctor.Webhook{
			URL: server.URL, HTTPClient: server.Client(),
			Secrets: []api.Secret{api.NewSecret(f.app.WebhookSecret)}, Challenge: api.NewSecret(f.app.ChallengeToken),
		},
		ReconcileEvery: 30 * 24 * time.Hour, // faults move the clock
		Now:            f.platform.Clock.Now,
	}
	f.config.Store = f.sealed(f.keys())
	f.receive(f.config.Webhook)
	f.reconciled()
	f.connect(user)
	require.NoError(t, f.platform.Webhooks.Register(server.URL))
	_, err := f.platform.Client(f.platform.Users()[0], dispensary.WithClinicKey(f.config.ClinicKey)).Catalog.Allergens.List().Page(t.Context())
	require.NoError(t, err) // this call activates the integration
	f.order(2)
	return f
}

// dated sets the Date of the platform's responses from its clock.
type dated struct{ platform *dispensarytest.Server }

func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.platform.HTTPClient().Transport.RoundTrip(r)
	if err == nil {
		response.Header.Set("Date", d.platform.Clock.Now().Format(http.TimeFormat))
	}
	return response, err
}

// reconciled runs one pass of a reconciler without clinics.
func (f *fixture) reconciled() {
	f.t.Helper()
	listed := make(chan struct{}, 1)
	clinics, err := reconcile.New(reconcile.Config{
		Environment: f.platform.Site().Environment, Inbox: f.inbox, Now: f.platform.Clock.Now,
		List: func(context.Context, string, int) ([]string, error) {
			listed <- struct{}{}
			return nil, nil
		},
		Open: func(context.Context, string, api.Limiter) (reconcile.Clinic, error) { panic("there is no clinic") },
	})
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- clinics.Loop(ctx, time.Hour) }()
	<-listed
	require.Eventually(f.t, func() bool { return !clinics.Stats().Taken.IsZero() }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(f.t, <-ended, context.Canceled)
}

func (f *fixture) keys() *seal.KeyRing {
	f.t.Helper()
	key, err := seal.GenerateKey("key-" + rand.Text()[:6])
	require.NoError(f.t, err)
	ring, err := seal.NewKeyRing(key)
	require.NoError(f.t, err)
	return ring
}

func (f *fixture) sealed(aead seal.AEAD) tokenstore.Store {
	f.t.Helper()
	store, err := tokenstore.Sealed(f.inner, aead)
	require.NoError(f.t, err)
	return store
}

// receive serves a webhook handler with these credentials.
func (f *fixture) receive(with doctor.Webhook) {
	f.t.Helper()
	if f.inbox == nil {
		inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: func(context.Context, events.Event) error { return nil }}})
		require.NoError(f.t, err)
		f.t.Cleanup(func() { _ = inbox.Close(context.Background()) })
		f.inbox, f.config.Inbox = inbox, inbox
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: f.platform.Site().Environment, Secrets: with.Secrets, Challenge: with.Challenge,
		Inbox: counting{f.inbox, &f.accepted}, Now: f.platform.Clock.Now,
	})
	require.NoError(f.t, err)
	f.endpoint = handler
	f.serve(handler)
}

// counting is an inbox that counts calls of Accept.
type counting struct {
	webhook.Inbox
	accepted *atomic.Int64
}

func (c counting) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	c.accepted.Add(1)
	return c.Inbox.Accept(ctx, d)
}

// serve replaces the endpoint.
func (f *fixture) serve(handler http.Handler) { f.front.Store(&handler) }

// respond makes the endpoint respond to every request with a status and a body.
func (f *fixture) respond(status int, body string) {
	f.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
}

func (f *fixture) client() *oauth.Client {
	f.t.Helper()
	client, err := oauth.New(f.config.OAuth)
	require.NoError(f.t, err)
	return client
}

// connect connects a user.
func (f *fixture) connect(user string) {
	f.t.Helper()
	conns, err := tokens.NewConnections(tokens.Config{Client: f.client(), Store: f.config.Store})
	require.NoError(f.t, err)
	address, err := f.client().AuthorizeURL(oauth.NewState())
	require.NoError(f.t, err)
	back, err := f.platform.Approve(address, f.platform.Users()[0])
	require.NoError(f.t, err)
	_, err = conns.Connect(f.t.Context(), user, api.NewSecret(back.Query().Get("code")))
	require.NoError(f.t, err)
}

func (f *fixture) key() tokenstore.Key {
	return tokenstore.Key{Environment: f.platform.Site().Environment, User: user}
}

// save changes the stored token.
func (f *fixture) save(change func(*oauth.Token)) {
	f.t.Helper()
	record, err := f.config.Store.Load(f.t.Context(), f.key())
	require.NoError(f.t, err)
	change(&record.Token)
	_, err = f.config.Store.Save(f.t.Context(), f.key(), record.Token)
	require.NoError(f.t, err)
}

// mark marks a user, who must then authorize again.
func (f *fixture) mark(user string, reason tokenstore.Reason) {
	f.t.Helper()
	key := tokenstore.Key{Environment: f.platform.Site().Environment, User: user}
	record, err := f.config.Store.Load(f.t.Context(), key)
	require.NoError(f.t, err)
	lease := tokenstore.Lease{Key: key, Version: record.Version, Owner: "test"}
	_, err = f.config.Store.Lease(f.t.Context(), lease, time.Minute)
	require.NoError(f.t, err)
	_, err = f.config.Store.Fail(f.t.Context(), lease, record.Token, reason)
	require.NoError(f.t, err)
}

// order places orders of a patient and makes due deliveries.
func (f *fixture) order(times int) {
	f.t.Helper()
	for range times {
		_, _, err := f.platform.Orders.Place(f.platform.Patients.All()[0].ID, model.OrderCreate{})
		require.NoError(f.t, err)
		f.platform.Clock.Advance(time.Second)
	}
}

// run runs doctor once all delivered events are handled.
func (f *fixture) run() doctor.Report {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		held, err := f.inbox.Stats(f.t.Context())
		return err != nil || held.Waiting+held.Running == 0
	}, time.Minute, time.Millisecond)
	report, err := doctor.Run(f.t.Context(), f.config)
	require.NoError(f.t, err)
	return report
}

// certificate serves the endpoint with a certificate for a period. The client trusts it.
func (f *fixture) certificate(from, until time.Time) (address string, client *http.Client) {
	f.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until, IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(f.t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(f.t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "1")
		w.Header().Set("Date", f.platform.Clock.Now().Format(http.TimeFormat))
		(*f.front.Load()).ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = silent
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	f.t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	f.t.Cleanup(transport.CloseIdleConnections)
	return server.URL, &http.Client{Transport: transport}
}

// rewrite is a proxy that changes bodies.
func rewrite(change func([]byte) []byte, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		body = change(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(w, r)
	})
}

// stats is an inbox with fixed numbers.
type stats engine.Stats

func (s stats) Stats(context.Context) (engine.Stats, error) { return engine.Stats(s), nil }

// store is a token store whose loaded records a test changes.
type store struct {
	tokenstore.Store
	load func(tokenstore.Record) tokenstore.Record
}

func (s store) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	record, err := s.Store.Load(ctx, key)
	if s.load != nil {
		record = s.load(record)
	}
	return record, err
}
