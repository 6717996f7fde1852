package mistakes

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/webhook"
)

// Mutation adds a mistake to the endpoint or its target.
type Mutation func(*Endpoint, *receivercheck.Target)

// configured changes the configuration of the handler.
func configured(change func(*webhook.HandlerConfig)) Mutation {
	return func(s *Endpoint, r *receivercheck.Target) {
		config := s.config
		change(&config)
		handler, err := webhook.NewHandler(config)
		if err != nil {
			panic(err)
		}
		r.Handler = handler
	}
}

// Around puts a handler in front of the endpoint. It may respond itself or pass the request to
// the endpoint.
func Around(front func(s *Endpoint, w http.ResponseWriter, r *http.Request)) Mutation {
	return func(s *Endpoint, r *receivercheck.Target) {
		r.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { front(s, w, r) })
	}
}

// Changing changes requests before they reach the endpoint.
func Changing(change func(*http.Request)) Mutation {
	return Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		change(r)
		s.ServeHTTP(w, r)
	})
}

// trusting replaces the verification of signatures by rule. It signs accepted requests again, so
// that the endpoint accepts them too.
func trusting(rule func(header string, body []byte) bool) Mutation {
	return Changing(func(r *http.Request) {
		header, body := r.Header.Get("SVC-Signature"), BodyOf(r)
		r.Header.Del("SVC-Signature")
		if rule(header, body) {
			t := strconv.FormatInt(time.Now().Unix(), 10)
			r.Header.Set("SVC-Signature", "t="+t+",v1="+mac(t+".", body))
		}
	})
}

// responding changes the responses of the endpoint.
func responding(change func(*http.Request, *httptest.ResponseRecorder)) Mutation {
	return Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		a := httptest.NewRecorder()
		s.ServeHTTP(a, r)
		change(r, a)
		w.Header().Set("Content-Type", a.Header().Get("Content-Type"))
		w.WriteHeader(a.Code)
		_, _ = a.Body.WriteTo(w)
	})
}

// replacing replaces the first occurrence of old in each response body.
func replacing(old, replacement string) Mutation {
	return responding(func(_ *http.Request, a *httptest.ResponseRecorder) {
		a.Body = bytes.NewBufferString(strings.Replace(a.Body.String(), old, replacement, 1))
	})
}

// rejecting responds with a bare status to verified requests for which test returns true.
func rejecting(status int, test func(event map[string]any, body []byte) bool) Mutation {
	return Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		var sent struct{ Event map[string]any }
		body := BodyOf(r)
		_ = json.Unmarshal(body, &sent)
		if verified(r.Header.Get("SVC-Signature"), body) && test(sent.Event, body) {
			w.WriteHeader(status)
			return
		}
		s.ServeHTTP(w, r)
	})
}

type acceptFunc func(context.Context, webhook.Delivery) (webhook.Receipt, error)

func (f acceptFunc) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	return f(ctx, d)
}

// storing replaces the inbox of the endpoint by accept.
func storing(accept func(s *Endpoint) acceptFunc) Mutation {
	return func(s *Endpoint, r *receivercheck.Target) {
		configured(func(c *webhook.HandlerConfig) { c.Inbox = accept(s) })(s, r)
	}
}

// keyed changes the keys that identify duplicates.
func keyed(change func(*webhook.Key)) func(s *Endpoint) acceptFunc {
	return func(s *Endpoint) acceptFunc {
		return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
			change(&d.Key)
			return s.Accept(ctx, d)
		}
	}
}

// impatient is the time limit for receivers without a response or without handling.
const impatient = 2 * time.Second

// Quickly shortens the timeouts to 2 seconds, for mistakes that appear as a missing action.
func Quickly(m Mutation) Mutation {
	return func(s *Endpoint, r *receivercheck.Target) {
		m(s, r)
		r.Timing.Timeout, r.Timing.Patience = impatient, impatient
	}
}

// BodyOf returns the body of a request. The body can be read again.
func BodyOf(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	Replace(r, body)
	return body
}

// Replace replaces the body of a request.
func Replace(r *http.Request, body []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

func mac(prefix string, body []byte) string {
	m := hmac.New(sha256.New, []byte(Secret))
	m.Write([]byte(prefix))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}

// parts returns the values of a header with one signature.
func parts(header string) (t, v1 string) {
	t, v1, _ = strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	return t, v1
}

// verified reports whether the signature matches the body. It ignores the time.
func verified(header string, body []byte) bool {
	t, v1 := parts(header)
	return v1 == mac(t+".", body)
}

// age returns the age of a signature. It is negative for a time in the future.
func age(header string) time.Duration {
	t, _ := parts(header)
	seconds, _ := strconv.ParseInt(t, 10, 64)
	return time.Since(time.Unix(seconds, 0))
}

func fresh(header string, body []byte) bool {
	return verified(header, body) && age(header).Abs() < 5*time.Minute
}

// AnyFresh reports whether one of the signatures in a header matches the body and is less than 5
// minutes away from the current time.
func AnyFresh(header string, body []byte) bool {
	t, rest, _ := strings.Cut(header, ",")
	return slices.ContainsFunc(strings.Split(rest, ","), func(v1 string) bool { return fresh(t+","+v1, body) })
}

func compact(body []byte) []byte {
	var short bytes.Buffer
	if json.Compact(&short, body) != nil {
		return body
	}
	return short.Bytes()
}

func indexHeader(r *http.Request) {
	if header := r.Header.Get("SVC-Signature"); header != "" {
		_ = strings.Split(strings.Split(header, ",")[1], "=")[1]
	}
}

// DecodeEach decodes each chunk separately, like body += chunk in Node.
func DecodeEach(r *http.Request) {
	var text strings.Builder
	chunk := make([]byte, 64<<10)
	for {
		n, err := r.Body.Read(chunk)
		text.WriteString(strings.ToValidUTF8(string(chunk[:n]), "\ufffd")) // the mistake: the chunk may end within a character
		if err != nil {
			break
		}
	}
	Replace(r, []byte(text.String()))
}

func strict(_ map[string]any, body []byte) bool {
	var sent struct {
		Event struct {
			ID, Type      string
			CreatedAt     string `json:"created_at"`
			ClinicID      string `json:"clinic_id"`
			IntegrationID string `json:"integration_id"`
			Data          json.RawMessage
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(&sent) != nil
}

func typed(_ map[string]any, body []byte) bool {
	var sent struct {
		Event struct {
			Data struct {
				Patient struct {
					Active   bool
					Discount float64
				}
			}
		}
	}
	return json.Unmarshal(body, &sent) != nil
}

// wants returns a test for orders without a member in their data.
func wants(member string) func(map[string]any, []byte) bool {
	return func(event map[string]any, _ []byte) bool {
		data, _ := event["data"].(map[string]any)
		return event["type"] == "order.placed" && data[member] == nil
	}
}

// newest returns a test for events more than 30 minutes older than the newest event so far.
func newest() func(map[string]any, []byte) bool {
	var latest time.Time
	return func(event map[string]any, _ []byte) bool {
		text, _ := event["created_at"].(string)
		at, err := time.Parse(time.RFC3339, text)
		if at.After(latest) {
			latest = at
		}
		return err == nil && at.Before(latest.Add(-30*time.Minute))
	}
}

// known returns a test for repeated bodies.
func known() func(map[string]any, []byte) bool {
	var bodies sync.Map
	return func(_ map[string]any, body []byte) bool {
		_, before := bodies.LoadOrStore(string(body), true)
		return before && len(body) > 0
	}
}

// oneAtATime rejects a request while it handles another. Each request waits up to 5 ms for
// another one to be rejected.
func oneAtATime() Mutation {
	var busy sync.Mutex
	rejected := make(chan struct{})
	return Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
		if !busy.TryLock() {
			select {
			case rejected <- struct{}{}:
			default:
			}
			w.WriteHeader(http.StatusForbidden)
			return
		}
		defer busy.Unlock()
		select {
		case <-rejected:
		case <-time.After(5 * time.Millisecond):
		}
		s.ServeHTTP(w, r)
	})
}

// unlimited removes the body limit for requests for which match returns true.
func unlimited(match func(*http.Request) bool) Mutation {
	return func(s *Endpoint, r *receivercheck.Target) {
		open := *r
		configured(func(c *webhook.HandlerConfig) { c.MaxBody = 1 << 40 })(s, &open)
		Around(func(s *Endpoint, w http.ResponseWriter, r *http.Request) {
			if match(r) {
				open.Handler.ServeHTTP(w, r)
				return
			}
			s.ServeHTTP(w, r)
		})(s, r)
	}
}

func withoutReadTimeout(s *Endpoint, r *receivercheck.Target) {
	configured(func(c *webhook.HandlerConfig) { c.BodyTimeout = time.Hour })(s, r)
	server := httptest.NewServer(r.Handler)
	s.test.Cleanup(server.Close)
	r.Handler, r.URL, r.Timing.BodyTimeout = nil, server.URL, time.Millisecond
}

// checkThenAct looks up the key and then stores the event. Between the two steps, requests wait
// for each other, so that two requests look up the key before either stores it.
func checkThenAct(s *Endpoint) acceptFunc {
	var known sync.Map
	meet := make(chan struct{})
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		if _, ok := known.Load(d.Key); ok {
			return webhook.Receipt{Duplicate: true}, nil
		}
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-time.After(2 * time.Second):
		}
		defer known.Store(d.Key, true)
		return keyed(newKey)(s)(ctx, d)
	}
}

// newKey changes the key so that every event is new.
func newKey(k *webhook.Key) { k.EventID += "#" + rand.Text() }

func regardless(s *Endpoint) acceptFunc {
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		_, _ = s.Accept(ctx, d) // the mistake
		return webhook.Receipt{}, nil
	}
}

// inside handles an event before acknowledging it.
func inside(s *Endpoint) acceptFunc {
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		event, err := d.Event()
		if err != nil {
			return webhook.Receipt{}, err
		}
		return webhook.Receipt{}, s.handle(ctx, event)
	}
}

// dropping acknowledges events without storing them while handlers are blocked.
func dropping(s *Endpoint) acceptFunc {
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		if !s.gate.TryRLock() {
			return webhook.Receipt{}, nil
		}
		s.gate.RUnlock()
		return s.Accept(ctx, d)
	}
}

// lateAgain handles an event again after eight others have arrived.
func lateAgain(s *Endpoint) acceptFunc {
	var mu sync.Mutex
	var before []webhook.Delivery
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		receipt, err := s.Accept(ctx, d)
		if receipt.Duplicate || err != nil {
			return receipt, err
		}
		mu.Lock()
		defer mu.Unlock()
		if before = append(before, d); len(before) > 8 {
			_, err = keyed(newKey)(s)(ctx, before[0])
			before = before[1:]
		}
		return receipt, err
	}
}
