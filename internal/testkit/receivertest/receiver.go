// Package receivertest contains shared helpers for the tests and benchmarks of inboxes. They
// create events and signed requests like those of the platform, send them from many senders,
// and kill receivers.
package receivertest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Receiver is the process that a [KillTest] kills: a second instance of the test program. Its
// handler appends the key of each event to the file "handled".
type Receiver struct {
	// Folder is the folder of the [KillTest].
	Folder string

	// Open opens the inbox and starts handling its events.
	Open func(webhook.Work, *seal.KeyRing) (webhook.Inbox, error)

	// Effect writes the key of an event to a table of the program, in the transaction of the
	// inbox. Run calls it only for events with [HasEffect]. Nil writes nothing.
	Effect func(ctx context.Context, key string) error

	// CrashOneIn is the average number of accepts until the receiver kills itself between an
	// accept and its response. 0 means never.
	CrashOneIn int
}

// Run serves the inbox on the inherited socket. The receiver exits if its parent process ends.
func (r Receiver) Run() error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // returns once the parent has ended
		os.Exit(1)
	}()
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	handled, err := os.OpenFile(r.Folder+"/handled", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	ring, err := FixedKeyRing()
	if err != nil {
		return err
	}
	inbox, err := r.Open(webhook.Work{
		Workers: 8, Order: webhook.ByObject, Stale: webhook.StalePolicyReport,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Handle: func(ctx context.Context, _ events.Event) error {
			key := webhook.HandlingFrom(ctx).Key.String()
			if _, err := handled.WriteString(key + "\n"); err != nil || r.Effect == nil || !HasEffect(key) {
				return err
			}
			return r.Effect(ctx, key)
		},
	}, ring)
	if err != nil {
		return err
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: Sandbox, Secrets: []api.Secret{api.NewSecret(Secret)}, Challenge: api.NewSecret(Challenge), Inbox: crashing{inbox, r.CrashOneIn},
		AcceptTimeout: 4 * time.Second, // the machine is busy starting receivers
	})
	if err != nil {
		return err
	}
	return http.Serve(listener, handler)
}

// HasEffect reports whether the event with this key has an effect. About half of all events have
// one.
func HasEffect(key string) bool { return sha256.Sum256([]byte(key))[0]%2 == 0 }

// crashing is an inbox that randomly kills its process between an accept and its response,
// without any cleanup.
type crashing struct {
	webhook.Inbox
	oneIn int
}

func (c crashing) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	receipt, err := c.Inbox.Accept(ctx, d)
	if c.oneIn == 0 || rand.IntN(c.oneIn) > 0 {
		return receipt, err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return receipt, err
	}
	_ = self.Kill()
	select {}
}

const (
	// Secret and Challenge are the webhook secret and the challenge token of the endpoint.
	Secret    = "whsec_test_0123456789abcdef"
	Challenge = "challenge-test-0123456789"

	// Canary is the name of each patient. Tests search for it in logs and other output that
	// must not contain patient data.
	Canary = "Zaphod-Inbox-Canary"
)

// Sandbox is the environment of all events.
var Sandbox = api.USSandbox

// KeyRing returns a key ring with a new key.
func KeyRing(t testing.TB) *seal.KeyRing {
	t.Helper()
	key, err := seal.GenerateKey("test")
	require.NoError(t, err)
	ring, err := seal.NewKeyRing(key)
	require.NoError(t, err)
	return ring
}

// FixedKeyRing returns a key ring that is the same in every process of a test.
func FixedKeyRing() (*seal.KeyRing, error) {
	return seal.ParseKeyRing(api.NewSecret("kill:QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="))
}

// Succeed is a handler without effect. It never fails.
func Succeed(context.Context, events.Event) error { return nil }

// Hold is a handler that waits until its context ends, and returns the error of the context.
func Hold(ctx context.Context, _ events.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

// patients is the default number of patients.
const patients = 500

// Body returns event number n, about 2 KB long, for one of 500 patients.
func Body(n int, integration string) []byte { return body(n, n%patients, integration) }

func body(n, patient int, integration string) []byte {
	return fmt.Appendf(nil, `{"event":{"id":"evt_%d","type":"patient.updated","created_at":"2026-11-20T10:%02d:%02dZ","clinic_id":"cl_1","integration_id":%q,`+
		`"data":{"patient":{"id":"pa_%d","first_name":%q,"note":"%01700d"}}}}`,
		n, n/60%60, n%60, integration, patient, Canary, n)
}

// number is the number of the last event. It gives each event of the process a different ID.
var number atomic.Int64

// NewDelivery returns a delivery of a new event, for one of 500 patients.
func NewDelivery() webhook.Delivery { return NewDeliveryAmong(patients) }

// NewDeliveryAmong returns a delivery of a new event, for one of the given number of patients.
func NewDeliveryAmong(patients int) webhook.Delivery {
	n := int(number.Add(1))
	return webhook.Delivery{
		Key:  webhook.Key{Environment: Sandbox, EventID: fmt.Sprint("evt_", n), IntegrationID: "in_1"},
		Type: events.TypePatientUpdated, ClinicID: "cl_1", ReceivedAt: time.Now(), CreatedAt: time.Now(), Body: body(n, n%patients, "in_1"),
	}
}

// Request returns a signed request like that of the platform. It uses only the standard library,
// so it is independent of the signing code under test.
func Request(address string, body []byte) (*http.Request, error) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(Secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	request, err := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("SVC-Signature", "t="+timestamp+",v1="+hex.EncodeToString(mac.Sum(nil)))
	return request, nil
}

// Accept sends a new event to an inbox and returns its delivery.
func Accept(t testing.TB, inbox webhook.Inbox) webhook.Delivery {
	t.Helper()
	d := NewDelivery()
	receipt, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	require.False(t, receipt.Duplicate)
	return d
}

// Observe returns a channel that receives every finished attempt of the work. It replaces the
// observer's AttemptEnd.
func Observe(w *webhook.Work) <-chan webhook.Attempt {
	made := make(chan webhook.Attempt, 1000)
	w.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) { made <- a }
	return made
}

// Until waits until gate is closed or the context of an attempt ends. It returns the error of
// the context in the second case.
func Until(ctx context.Context, gate <-chan struct{}) error {
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Loggers returns a logger that writes each record as text and as JSON, at any level and with
// its source.
func Loggers(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug - 100, AddSource: true}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(w, options), slog.NewJSONHandler(w, options)))
}

// Say prints a value with every verb of fmt and with [Loggers].
func Say(w io.Writer, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		fmt.Fprintf(w, verb+"\n", v)
	}
	Loggers(w).Info("said", "value", v)
}

// Senders is the number of concurrent deliveries.
const Senders = 64

// Nothing is an inbox that stores nothing. It shows the cost of HTTP and the handler.
type Nothing struct{}

// Accept implements [webhook.Inbox].
func (Nothing) Accept(context.Context, webhook.Delivery) (receipt webhook.Receipt, err error) {
	return receipt, nil
}

// BenchmarkLonely measures accepts by a single sender.
func BenchmarkLonely(b *testing.B, inbox webhook.Inbox) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		_, err := inbox.Accept(b.Context(), NewDelivery())
		require.NoError(b, err)
	}
}

// BenchmarkHTTP measures accepts through HTTP, including the signature, with [Senders]
// concurrent deliveries. It reports accepts per second and the 99th percentile of the request
// duration in milliseconds.
func BenchmarkHTTP(b *testing.B, inbox webhook.Inbox) {
	b.Helper()
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: Sandbox, Secrets: []api.Secret{api.NewSecret(Secret)}, Challenge: api.NewSecret(Challenge), Inbox: inbox, AcceptTimeout: 10 * time.Second,
	})
	require.NoError(b, err)
	server := httptest.NewServer(handler)
	defer server.Close()
	lines := make([]*connection, Senders)
	for n := range lines {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(b, err)
		defer func() { _ = conn.Close() }()
		lines[n] = &connection{Conn: conn, reader: bufio.NewReader(conn)}
	}
	const first = 4 * Senders // warm up pools and caches
	requests := rawRequests(b, first+b.N)
	send := func(requests [][]byte) {
		together(len(requests), func(sender, n int) bool { return failed(b, lines[sender].exchange(requests[n])) })
	}
	send(requests[:first])
	for _, line := range lines {
		line.took = line.took[:0]
	}
	b.ResetTimer()
	send(requests[first:])
	b.StopTimer()
	var all []time.Duration
	for _, line := range lines {
		all = append(all, line.took...)
	}
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accepts/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// together calls do for every index below n from all senders concurrently. A sender stops after
// do reports a failure.
func together(n int, do func(sender, n int) (failed bool)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for sender := range Senders {
		group.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if do(sender, i-1) {
					return
				}
			}
		})
	}
	group.Wait()
}

func failed(b *testing.B, err error) bool {
	if err != nil {
		b.Error(err)
	}
	return err != nil
}

// rawRequests returns n encoded requests. Client and server share the machine, so encoding them
// in advance keeps this work out of the measurement.
func rawRequests(b *testing.B, n int) [][]byte {
	b.Helper()
	all := make([][]byte, n)
	for i := range all {
		request, err := Request("http://localhost/webhooks", NewDelivery().Body)
		require.NoError(b, err)
		var raw bytes.Buffer
		require.NoError(b, request.Write(&raw))
		all[i] = raw.Bytes()
	}
	return all
}

// connection is the connection of one sender. took lists the duration of each exchange.
type connection struct {
	net.Conn
	reader *bufio.Reader
	took   []time.Duration
}

// exchange sends a request and reads the response. Its body must be the challenge.
func (c *connection) exchange(request []byte) error {
	begin := time.Now()
	if _, err := c.Write(request); err != nil {
		return err
	}
	status, err := c.reader.ReadString('\n')
	if err != nil || status != "HTTP/1.1 200 OK\r\n" {
		return fmt.Errorf("response %q: %w", status, err)
	}
	for line := ""; line != "\r\n"; {
		if line, err = c.reader.ReadString('\n'); err != nil {
			return err
		}
	}
	_, err = c.reader.Discard(len(`{"challenge":""}`) + len(Challenge))
	c.took = append(c.took, time.Since(begin))
	return err
}
