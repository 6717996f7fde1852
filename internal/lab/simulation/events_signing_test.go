package simulation

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/webhook"
)

// signing contains the webhook secrets and clocks of the platform and the replicas. The mutex of
// the world guards it.
type signing struct {
	secret api.Secret               // secret that signs the platform's webhooks
	known  []api.Secret             // secrets of new replicas, newest first
	made   int                      // number of secrets after the first
	with   map[string]api.Secret    // secret by signature header
	clocks map[string]time.Duration // clock error by replica; positive is ahead
}

// clockErrors contains clock errors within and beyond the tolerance of timestamps.
var clockErrors = []time.Duration{-12 * time.Minute, -6 * time.Minute, -4 * time.Minute, 4 * time.Minute, 6 * time.Minute, 12 * time.Minute}

// rotateSecret adds actions that rotate the webhook secret. First, new replicas start with the new
// and the old secret. Then the platform signs with the new one, perhaps before all replicas have
// it.
func (w *eventWorld) rotateSecret() {
	first := api.NewSecret(w.platform.Application().WebhookSecret)
	w.signing = signing{secret: first, known: []api.Secret{first}, with: map[string]api.Secret{}, clocks: map[string]time.Duration{}}
	switched := func() bool { return w.signing.secret == w.signing.known[0] }
	w.s.Action("new replicas get another webhook secret", 2, switched, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.signing.made++
		next := api.NewSecret(fmt.Sprintf("%s-webhook-secret-%d", canary, w.signing.made))
		w.signing.known = []api.Secret{next, w.signing.known[0]}
	})
	w.s.Action("the platform's webhook secret is changed", 2, func() bool { return !switched() }, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.signing.secret = w.signing.known[0]
		w.s.Disturb()
	})
	w.s.OnRecovery(w.reload)
}

// setClocks adds actions that set the clocks of replicas wrong until the recovery.
func (w *eventWorld) setClocks(replicas []string) {
	for _, name := range replicas {
		off := clockErrors[w.s.Rand.IntN(len(clockErrors))]
		w.s.Action(fmt.Sprintf("the clock of %s is off by %s", name, off), 1, nil, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.signing.clocks[name] = off
			w.s.Disturb()
		})
	}
	w.s.OnRecovery(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		clear(w.signing.clocks)
	})
}

// reload sets the current secrets in all replicas, like a deployment.
func (w *eventWorld) reload() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.receivers {
		r.secrets = w.signing.known
		r.handler = w.newHandler(r)
	}
}

// newHandler returns the handler of a receiver with its secrets.
func (w *eventWorld) newHandler(r *receiver) http.Handler {
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: w.platform.Site().Environment, Secrets: r.secrets, Challenge: api.NewSecret(w.platform.Application().ChallengeToken),
		Inbox: r.inbox, Logger: r.logger, Now: w.clockOf(r.process.Name),
	})
	if err != nil {
		panic(err)
	}
	return handler
}

// clockOf returns the clock of a replica.
func (w *eventWorld) clockOf(name string) func() time.Time {
	return func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Now().Add(w.signing.clocks[name])
	}
}

// sign signs a webhook of the platform with its current secret.
func (w *eventWorld) sign(r *http.Request) (*http.Request, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	signed := r.Clone(r.Context())
	signed.Body = io.NopCloser(bytes.NewReader(body))
	header := webhook.Sign(w.signing.secret, signedAt(r), body)
	signed.Header.Set(webhook.SignatureHeader, header)
	w.signing.with[header] = w.signing.secret
	return signed, nil
}

// signedAt returns the timestamp of a signature.
func signedAt(r *http.Request) time.Time {
	text, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get(webhook.SignatureHeader), "t="), ",")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return time.Unix(seconds, 0)
}

// refusal returns a check of the response to a webhook. A replica must reject a webhook if it does
// not know the secret or if its clock is beyond the tolerance, and for no other reason.
func (w *eventWorld) refusal(r receiver, webhooks *http.Request) func(status int) {
	now := w.clockOf(r.process.Name)()
	w.mu.Lock()
	defer w.mu.Unlock()
	unknown := !slices.Contains(r.secrets, w.signing.with[webhooks.Header.Get(webhook.SignatureHeader)])
	late := now.Sub(signedAt(webhooks)).Abs() > defaults.SignatureTolerance
	return func(status int) {
		if (status == http.StatusUnauthorized) != (unknown || late) {
			w.s.Failf("%s responds with %d to a webhook; unknown secret: %t, timestamp beyond tolerance: %t", r.process.Name, status, unknown, late)
		}
	}
}
