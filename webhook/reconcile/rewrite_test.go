package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// rewriting returns the services of a client with changed responses. change receives the body
// of every response.
func (s *fixture) rewriting(change func(*http.Request, map[string]any)) events.Service {
	return s.client(dispensary.WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := s.platform.HTTPClient().Transport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }()
		var body map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			return nil, err
		}
		change(r, body)
		changed, err := json.Marshal(body)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
		resp.Header.Del("Content-Length")
		return resp, err
	}))).Events
}

// rewritten gives a reconciler the changed responses.
func (s *fixture) rewritten(change func(*http.Request, map[string]any)) func(*config) {
	return func(c *config) { c.Events = s.rewriting(change) }
}

// deleteFromLog removes a field from all events in the delivery log.
func deleteFromLog(body map[string]any, field string) {
	for _, row := range items(body, "webhook_deliveries") {
		delete(row["event_payload"].(map[string]any)["event"].(map[string]any), field)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// items returns the objects of a list in a body, or nil if the list is missing.
func items(body map[string]any, name string) (all []map[string]any) {
	list, _ := body[name].([]any)
	for _, item := range list {
		all = append(all, item.(map[string]any))
	}
	return all
}

// hide removes events from a list and from its count.
func hide(body map[string]any, which func(map[string]any) bool) {
	list, ok := body["events"].([]any)
	if !ok {
		return
	}
	left := slices.DeleteFunc(slices.Clone(list), func(e any) bool { return which(e.(map[string]any)) })
	body["events"] = left
	if meta, ok := body["meta"].(map[string]any); ok {
		meta["total_count"] = meta["total_count"].(float64) - float64(len(list)-len(left))
	}
}

// hooked is an inbox with a hook. before is called with the name of each method, and its error
// or panic replaces the result.
type hooked struct {
	reconcile.Inbox
	before func(ctx context.Context, method string, d webhook.Delivery) error
}

// onAccept returns a hook for Accept only.
func onAccept(f func() error) func(context.Context, string, webhook.Delivery) error {
	return func(_ context.Context, method string, _ webhook.Delivery) error {
		if method == "Accept" {
			return f()
		}
		return nil
	}
}

func (h hooked) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := h.before(ctx, "Accept", d); err != nil {
		return webhook.Receipt{}, err
	}
	return h.Inbox.Accept(ctx, d)
}

func (h hooked) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if err := h.before(ctx, "Missing", webhook.Delivery{}); err != nil {
		return nil, err
	}
	return h.Inbox.Missing(ctx, keys)
}

func (h hooked) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	if err := h.before(ctx, "ClaimCheckpoint", webhook.Delivery{}); err != nil {
		return nil, err
	}
	return h.Inbox.ClaimCheckpoint(ctx, name, holder, ttl)
}

func (h hooked) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	if err := h.before(ctx, "SaveCheckpoint", webhook.Delivery{}); err != nil {
		return err
	}
	return h.Inbox.SaveCheckpoint(ctx, name, holder, state, ttl)
}

func (h hooked) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	if err := h.before(ctx, "ReleaseCheckpoint", webhook.Delivery{}); err != nil {
		return err
	}
	return h.Inbox.ReleaseCheckpoint(ctx, name, holder)
}

// dated gives a reconciler another date for some events, in lists and in the log.
func (s *fixture) dated(at time.Time, ids ...string) func(*config) {
	return s.rewritten(func(_ *http.Request, body map[string]any) {
		for _, e := range items(body, "events") {
			if slices.Contains(ids, e["id"].(string)) {
				e["created_at"] = at.Format(time.RFC3339)
			}
		}
		if list, ok := body["events"].([]any); ok {
			slices.SortStableFunc(list, func(a, b any) int {
				return -strings.Compare(a.(map[string]any)["created_at"].(string), b.(map[string]any)["created_at"].(string))
			})
		}
		for _, row := range items(body, "webhook_deliveries") {
			e := row["event_payload"].(map[string]any)["event"].(map[string]any)
			if slices.Contains(ids, e["id"].(string)) {
				row["attempted_at"] = at.Format(time.RFC3339)
			}
		}
	})
}
