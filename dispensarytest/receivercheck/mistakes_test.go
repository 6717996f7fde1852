package receivercheck_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/webhook"
)

func fresh(header string, body []byte) bool {
	return verified(webhookSecret, header, body) && age(header).Abs() < 5*time.Minute
}

func compact(body []byte) []byte {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return body
	}
	var short bytes.Buffer
	_ = json.Compact(&short, body) // it is valid
	return short.Bytes()
}

func prefix(header string, body []byte) bool {
	t, v1 := parts(header)
	return v1 != "" && strings.HasPrefix(mac(webhookSecret, t+".", body), v1)
}

func indexHeader(s *fixture, w http.ResponseWriter, r *http.Request) {
	if header := r.Header.Get("SVC-Signature"); header != "" {
		_ = strings.Split(strings.Split(header, ",")[1], "=")[1]
	}
	s.ServeHTTP(w, r)
}

func firstSignature(s *fixture, w http.ResponseWriter, r *http.Request) {
	if elements := strings.Split(r.Header.Get("SVC-Signature"), ","); len(elements) > 2 {
		r.Header.Set("SVC-Signature", strings.Join(elements[:2], ","))
	}
	s.ServeHTTP(w, r)
}

// open accepts every request.
func open(s *fixture) http.Handler {
	var r receivercheck.Target
	trusting(func(string, []byte) bool { return true })(s, &r)
	return r.Handler
}

func instead(status, other int) int {
	if status == http.StatusOK {
		return other
	}
	return status
}

func ifProbe(r *http.Request, answer, otherwise string) string {
	if r.ContentLength == 0 {
		return answer
	}
	return otherwise
}

func plainText(s *fixture, w http.ResponseWriter, r *http.Request) {
	recorded := httptest.NewRecorder()
	s.ServeHTTP(recorded, r)
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(recorded.Code)
	_, _ = recorded.Body.WriteTo(w)
}

func refuseEmpty(s *fixture, w http.ResponseWriter, r *http.Request, body []byte) {
	if len(body) == 0 {
		http.Error(w, "no event", http.StatusBadRequest)
		return
	}
	s.ServeHTTP(w, r)
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

// wants refuses events of a type whose data lacks a member.
func wants(kind, member string) func(map[string]any, []byte) bool {
	return func(event map[string]any, _ []byte) bool {
		data, _ := event["data"].(map[string]any)
		_, there := data[member]
		return event["type"] == kind && !there
	}
}

// newest refuses what is older than what came before.
func newest() func(map[string]any, []byte) bool {
	var mu sync.Mutex
	var latest time.Time
	return func(event map[string]any, _ []byte) bool {
		text, _ := event["created_at"].(string)
		at, err := time.Parse(time.RFC3339, text)
		mu.Lock()
		defer mu.Unlock()
		if at.After(latest) {
			latest = at
		}
		return err == nil && at.Before(latest.Add(-30*time.Minute))
	}
}

// duplicates answers events that came before in another way.
func duplicates(status int, answer string) mutation {
	var known sync.Map
	return peeking(func(s *fixture, w http.ResponseWriter, r *http.Request, body []byte) {
		if _, before := known.LoadOrStore(string(body), true); before && len(body) > 0 && fresh(r.Header.Get("SVC-Signature"), body) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
			return
		}
		s.ServeHTTP(w, r)
	})
}

// oneAtATime refuses requests that come while another is handled, and waits for one.
func oneAtATime() func(*fixture, http.ResponseWriter, *http.Request) {
	var busy sync.Mutex
	refused := make(chan struct{})
	return func(s *fixture, w http.ResponseWriter, r *http.Request) {
		if !busy.TryLock() {
			select {
			case refused <- struct{}{}:
			default:
			}
			http.Error(w, "one at a time", http.StatusForbidden)
			return
		}
		defer busy.Unlock()
		select {
		case <-refused:
		case <-time.After(5 * time.Millisecond):
		}
		s.ServeHTTP(w, r)
	}
}

func malformedIsFine(status int, answer string) (int, string) {
	if status == http.StatusBadRequest {
		return http.StatusOK, `{"challenge":"` + challengeToken + `"}`
	}
	return status, answer
}

func readOnce(s *fixture, w http.ResponseWriter, r *http.Request) {
	buffer := make([]byte, 64<<10)
	n, _ := r.Body.Read(buffer) // the mistake
	replace(r, buffer[:n])
	s.ServeHTTP(w, r)
}

// decodeEach decodes each chunk by itself, as body += chunk does in Node.
func decodeEach(s *fixture, w http.ResponseWriter, r *http.Request) {
	var text strings.Builder
	chunk := make([]byte, 64<<10)
	for {
		n, err := r.Body.Read(chunk)
		for b := chunk[:n]; len(b) > 0; {
			character, size := utf8.DecodeRune(b)
			text.WriteRune(character) // the mistake: it may be half of one
			b = b[size:]
		}
		if err != nil {
			break
		}
	}
	replace(r, []byte(text.String()))
	s.ServeHTTP(w, r)
}

// locked holds a lock while it reads.
func locked() mutation {
	var mu sync.Mutex
	return around(func(s *fixture, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		s.ServeHTTP(w, r)
	})
}

// stubborn does not end when reading fails.
func stubborn(s *fixture, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		<-s.test.Context().Done()
	}
	replace(r, body)
	s.ServeHTTP(w, r)
}

func withoutReadTimeout(s *fixture, r *receivercheck.Target) {
	configured(func(c *webhook.HandlerConfig) { c.BodyTimeout = time.Hour })(s, r)
	server := httptest.NewServer(r.Handler)
	s.test.Cleanup(server.Close)
	r.Handler, r.URL, r.Timing.BodyTimeout = nil, server.URL, time.Millisecond
}

func gone(status int) int {
	if status == http.StatusUnauthorized {
		return http.StatusGone
	}
	return status
}

// handleFirst does slow work before anything else.
func handleFirst(s *fixture, w http.ResponseWriter, r *http.Request, _ []byte) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.ServeHTTP(w, r)
}

func quote(s *fixture, w http.ResponseWriter, r *http.Request, body []byte) {
	if !fresh(r.Header.Get("SVC-Signature"), body) {
		http.Error(w, "cannot verify "+string(body), http.StatusUnauthorized)
		return
	}
	s.ServeHTTP(w, r)
}

func logBody(s *fixture, w http.ResponseWriter, r *http.Request, body []byte) {
	s.config.Logger.Info("received", "body", string(body))
	s.ServeHTTP(w, r)
}

type acceptFunc = func(context.Context, webhook.Delivery) (webhook.Receipt, error)

// noKeys makes every event a new one.
func noKeys(s *fixture) acceptFunc {
	var numbers atomic.Int64
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		d.Key.EventID += "#" + strconv.FormatInt(numbers.Add(1), 10)
		return s.Accept(ctx, d)
	}
}

// checkThenAct looks first, and stores then. Requests wait for each other in between,
// so that two certainly look before either stores.
func checkThenAct(s *fixture) acceptFunc {
	var known sync.Map
	meet := make(chan struct{})
	act := noKeys(s)
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		if _, ok := known.Load(d.Key); ok {
			return webhook.Receipt{Duplicate: true}, nil
		}
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-time.After(2 * time.Second):
		}
		receipt, err := act(ctx, d)
		known.Store(d.Key, true)
		return receipt, err
	}
}

func byEventID(s *fixture) acceptFunc {
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		d.Key.IntegrationID = ""
		return s.Accept(ctx, d)
	}
}

func regardless(s *fixture) acceptFunc {
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		_, _ = s.Accept(ctx, d) // the mistake
		return webhook.Receipt{}, nil
	}
}

// inside handles events before they are acknowledged.
func inside(s *fixture) acceptFunc {
	var known sync.Map
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		if _, ok := known.LoadOrStore(d.Key, true); ok {
			return webhook.Receipt{Duplicate: true}, nil
		}
		event, err := d.Event()
		if err != nil {
			return webhook.Receipt{}, err
		}
		return webhook.Receipt{}, s.handle(ctx, event)
	}
}

// dropping acknowledges what there is no room for.
func dropping(s *fixture) acceptFunc {
	return func(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
		if !s.gate.TryRLock() {
			return webhook.Receipt{}, nil
		}
		s.gate.RUnlock()
		return s.Accept(ctx, d)
	}
}

// lateAgain handles an event once more when eight others have come.
func lateAgain(s *fixture) acceptFunc {
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
			again := before[0]
			again.Key.EventID += "#again"
			before = before[1:]
			_, err = s.Accept(ctx, again)
		}
		return receipt, err
	}
}
