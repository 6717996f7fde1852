package receivercheck_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/webhook"
)

// mutation puts a mistake into or around the endpoint.
type mutation func(*fixture, *receivercheck.Target)

// around puts a handler in front of the endpoint, which may answer by itself, or
// pass a request on.
func around(front func(s *fixture, w http.ResponseWriter, r *http.Request)) mutation {
	return func(s *fixture, r *receivercheck.Target) {
		r.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { front(s, w, r) })
	}
}

// peeking is around with the body, which is read before and put back.
func peeking(front func(s *fixture, w http.ResponseWriter, r *http.Request, body []byte)) mutation {
	return around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "unreadable", http.StatusBadRequest)
			return
		}
		replace(r, body)
		front(s, w, r, body)
	})
}

func replace(r *http.Request, body []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

// refusing refuses verified events that a test is true of, with a status.
func refusing(status int, test func(event map[string]any, body []byte) bool) mutation {
	return peeking(func(s *fixture, w http.ResponseWriter, r *http.Request, body []byte) {
		var sent struct{ Event map[string]any }
		_ = json.Unmarshal(body, &sent)
		if len(body) > 0 && verified(webhookSecret, r.Header.Get("SVC-Signature"), body) && test(sent.Event, body) {
			http.Error(w, "no", status)
			return
		}
		s.ServeHTTP(w, r)
	})
}

// answering changes the answers of the endpoint.
func answering(change func(r *http.Request, status int, answer string) (int, string)) mutation {
	return around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		s.ServeHTTP(recorded, r)
		status, answer := change(r, recorded.Code, recorded.Body.String())
		w.Header().Set("Content-Type", recorded.Header().Get("Content-Type"))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	})
}

// trusting replaces the verification of signatures by a rule: what it accepts is signed
// again, so that the endpoint accepts it, too.
func trusting(rule func(header string, body []byte) bool) mutation {
	return peeking(func(s *fixture, w http.ResponseWriter, r *http.Request, body []byte) {
		header := r.Header.Get("SVC-Signature")
		r.Header.Del("SVC-Signature")
		if rule(header, body) {
			r.Header.Set("SVC-Signature", signed(webhookSecret, body))
		}
		s.ServeHTTP(w, r)
	})
}

// storing is the endpoint with another way to accept.
func storing(accept func(s *fixture) func(context.Context, webhook.Delivery) (webhook.Receipt, error)) mutation {
	return func(s *fixture, r *receivercheck.Target) {
		config := s.config
		config.Inbox = inboxFunc(accept(s))
		handler, err := webhook.NewHandler(config)
		if err != nil {
			panic(err)
		}
		r.Handler = handler
	}
}

type inboxFunc func(context.Context, webhook.Delivery) (webhook.Receipt, error)

func (f inboxFunc) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	return f(ctx, d)
}

func mac(secret, text string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}

func signed(secret string, body []byte) string {
	t := strconv.FormatInt(time.Now().Unix(), 10)
	return "t=" + t + ",v1=" + mac(secret, t+".", body)
}

// parts are the values of a header with one signature.
func parts(header string) (t, v1 string) {
	t, v1, _ = strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	return t, v1
}

// verified does not look at the time.
func verified(secret, header string, body []byte) bool {
	t, v1 := parts(header)
	return v1 == mac(secret, t+".", body)
}

// anyFresh reports that one of a header's signatures is that of the body, and that
// it is not too old or too new.
func anyFresh(header string, body []byte) bool {
	t, rest, _ := strings.Cut(header, ",")
	return slices.ContainsFunc(strings.Split(rest, ","), func(v1 string) bool { return fresh(t+","+v1, body) })
}

// age is how old a signature is; negative if it is from the future.
func age(header string) time.Duration {
	t, _ := parts(header)
	seconds, _ := strconv.ParseInt(t, 10, 64)
	return time.Since(time.Unix(seconds, 0))
}
