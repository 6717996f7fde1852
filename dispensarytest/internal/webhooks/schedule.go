package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Defaults of optional fields.
const (
	signatureLag = 10 * time.Minute
	overtaken    = time.Minute
)

// Accept plans the deliveries of an event, or returns the reason for sending none.
func (s *Sender) Accept(e model.Event, now time.Time, enabled []*store.Integration, rejection string) (notSent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.announce()
	s.forget(now)
	switch {
	case s.closed:
		rejection = "the platform was closed"
	case s.endpoint == nil:
		rejection = "no webhook endpoint is registered"
	case s.endpoint.Disabled:
		rejection = "the webhook endpoint is disabled: " + s.endpoint.Reason
	case !slices.Contains(s.endpoint.Types, e.Type):
		rejection = "the webhook endpoint is not subscribed to " + e.Type
	}
	if rejection != "" {
		return rejection
	}
	for _, i := range enabled {
		sent := e
		if sent.ClinicID == "" && s.Behaviors.Get().Is(behavior.ProductEventClinicPresent) {
			sent.ClinicID = i.ClinicID
		}
		s.plan(sent, now, i)
	}
	return ""
}

// plan schedules the first attempt. The caller holds mu. The attempt does not wait if the
// event is later than the clock. See the behavior event-times.
func (s *Sender) plan(e model.Event, now time.Time, i *store.Integration) {
	s.planned++
	d := &Entry{Event: e, ClinicID: i.ClinicID, Delivery: model.Delivery{
		ID:      s.Store.World.ID("delivery", uint64(s.planned)),
		EventID: e.ID, EventType: e.Type, IntegrationID: i.ID,
	}}
	d.NextAttemptAt = now
	switch f, fires := s.fire(d, model.EffectDeliveryLost, model.EffectDeliveryReordered); {
	case !fires:
		s.schedule(d)
	case f.Effect == model.EffectDeliveryLost:
		d.Lost, d.NextAttemptAt = true, time.Time{}
	default:
		s.hold(d, f)
	}
	table.Put(&s.deliveries, d)
}

// schedule schedules the next attempt of a delivery. The caller holds mu.
func (s *Sender) schedule(d *Entry) {
	s.later(d.ID, d.NextAttemptAt, func(t *clock.Task) {
		if cap(s.busy) > 1 {
			go s.attempt(d.ID, t)
			return
		}
		s.attempt(d.ID, t)
	})
}

// later schedules a task of a delivery, in place of its earlier task. The caller holds mu.
func (s *Sender) later(id string, at time.Time, what func(*clock.Task)) {
	t := &clock.Task{Owner: s, At: at}
	t.Run = func() { what(t) }
	s.tasks[id] = t
	s.Clock.Push(t)
}

// attempt makes one scheduled attempt.
func (s *Sender) attempt(id string, t *clock.Task) {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	target, d := s.target(id, t)
	if target == "" {
		return
	}
	f, _ := s.fire(d, model.EffectDeliveryForged, model.EffectDeliveryFuture, model.EffectDeliveryStale)
	a := s.send(target, d, f)
	s.settle(id, a)
	if a.Err == "" {
		s.repeat(target, d)
	}
	s.release()
}

// send makes one attempt, after a probe if the behavior requires it.
func (s *Sender) send(target string, d *Entry, f model.Fault) (a model.Attempt) {
	if s.Behaviors.Get().Is(behavior.ProbeBeforeEach) {
		a = s.post(target, nil, s.probeSignature())
	}
	if a.Err == "" {
		a = s.post(target, s.envelope(d), s.signatureOf(f))
		a.Fault = f.Effect
	}
	return a
}

// target returns the URL of an attempt and its delivery. It returns "" if the delivery has
// left the schedule since.
func (s *Sender) target(id string, t *clock.Task) (string, *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, known := table.Get(s.deliveries, id)
	if !known || s.tasks[id] != t || !d.isDue() || s.closed || s.endpoint == nil {
		return "", nil
	}
	return s.endpoint.URL, d
}

// settle records an attempt and decides the next step.
func (s *Sender) settle(id string, a model.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.announce()
	now := s.Clock.Now()
	switch {
	case a.Err != "":
		s.blame(a, now)
	case s.endpoint != nil:
		s.endpoint.FailingSince = time.Time{}
	}
	delete(s.tasks, id)
	d := s.change(id, func(d *Entry) {
		d.Attempts = append(d.Attempts, a)
		d.NextAttemptAt = time.Time{}
		switch made := len(d.Attempts); {
		case a.Err == "":
			d.Delivered, d.Stopped, d.Revoked = true, false, false
		case s.closed || d.Revoked || made > len(s.Behaviors.Get().RetrySchedule()):
		case s.endpoint == nil || s.endpoint.Disabled:
			d.Stopped = true
		default:
			d.NextAttemptAt = now.Add(s.Behaviors.Get().RetrySchedule()[made-1])
		}
	})
	if d != nil && !d.NextAttemptAt.IsZero() {
		s.schedule(d)
	}
}

// envelope returns the body of a delivery. API section: "Webhooks" 2.
func (s *Sender) envelope(d *Entry) []byte {
	behaviors := s.Behaviors.Get()
	body := view.EncodeDelivery(&d.Event, d.IntegrationID, behaviors.Is(behavior.WebhookEnvelopeEventPayload))
	if rewrite := view.Rewriter(behaviors); rewrite != nil {
		body = rewrite(body)
	}
	return body
}

// forgedSecret signs forged deliveries.
const forgedSecret = "not the webhook secret"

// fire returns the fault that affects a delivery, if any.
func (s *Sender) fire(d *Entry, effects ...model.Effect) (model.Fault, bool) {
	return s.Faults.Fire(d.EventType, s.Clock.Now(), effects...)
}

// signatureOf returns the signature options of an attempt with this fault. Without a fault,
// the signature is correct.
func (s *Sender) signatureOf(f model.Fault) Signature {
	lag := cmp.Or(f.Delay, signatureLag)
	switch f.Effect {
	case model.EffectDeliveryStale:
		return Signature{shift: -lag}
	case model.EffectDeliveryFuture:
		return Signature{shift: lag}
	case model.EffectDeliveryForged:
		return Signature{with: forgedSecret}
	}
	return Signature{}
}

// repeat sends a delivered event again, like a platform that did not understand the response.
// Its result changes only the log.
func (s *Sender) repeat(target string, d *Entry) {
	f, fires := s.fire(d, model.EffectDeliveryRepeated)
	if !fires {
		return
	}
	a := s.post(target, s.envelope(d), Signature{})
	a.Fault = f.Effect
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(d.ID, func(d *Entry) { d.Attempts = append(d.Attempts, a) })
	s.announce()
}

// hold delays a delivery, so that another one overtakes it. The caller holds mu.
func (s *Sender) hold(d *Entry, f model.Fault) {
	id := d.ID
	d.held = true
	s.held = append(s.held, id)
	d.NextAttemptAt = d.NextAttemptAt.Add(cmp.Or(f.Delay, overtaken))
	s.later(id, d.NextAttemptAt, func(*clock.Task) { s.free(id) })
}

// release frees all held deliveries, because another one has overtaken them.
func (s *Sender) release() {
	s.mu.Lock()
	waiting := slices.Clone(s.held)
	s.mu.Unlock()
	for _, id := range waiting {
		s.free(id)
	}
}

// free schedules a held delivery for now, unless it was freed already.
func (s *Sender) free(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, known := table.Get(s.deliveries, id); !known || !d.held || s.closed {
		return
	}
	s.held = slices.DeleteFunc(s.held, func(other string) bool { return other == id })
	s.schedule(s.change(id, func(d *Entry) { d.held, d.NextAttemptAt = false, s.Clock.Now() }))
	s.announce()
}

// halt removes due deliveries from the schedule. From then on, none of them is announced or
// attempted. If an attempt is running, it only prevents another one. The caller holds mu.
func (s *Sender) halt(which func(*Entry) bool, why func(*Entry)) {
	dropped := make(map[*clock.Task]bool)
	for _, d := range s.due() {
		if !which(d) {
			continue
		}
		s.change(d.ID, func(d *Entry) {
			why(d)
			d.NextAttemptAt, d.held = time.Time{}, false
		})
		dropped[s.tasks[d.ID]] = true
		s.held = slices.DeleteFunc(s.held, func(id string) bool { return id == d.ID })
	}
	s.Clock.Forget(dropped)
}

// stopAll stops all due deliveries with the endpoint. The caller holds mu.
func (s *Sender) stopAll() {
	s.halt(func(*Entry) bool { return true }, func(d *Entry) { d.Stopped = true })
}

// Revoke stops the deliveries of an integration, except the event of the key's revocation.
// That this event keeps all its attempts is an assumption. API section: "Webhooks" 6.
func (s *Sender) Revoke(integrationID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.announce()
	s.halt(func(d *Entry) bool {
		return d.IntegrationID == integrationID && d.EventType != model.EventClinicKeyRevoked
	}, func(d *Entry) { d.Revoked = true })
}

// failingLimit is the maximum period of failing attempts before the endpoint is disabled. API
// section: "Webhooks" 8.
const failingLimit = 24 * time.Hour

// blame disables the endpoint on 410 and after 24 hours of failure. The caller
// holds mu.
func (s *Sender) blame(a model.Attempt, now time.Time) {
	ep := s.endpoint
	switch {
	case ep == nil || ep.Disabled:
	case a.Status == http.StatusGone:
		ep.Disabled, ep.Reason = true, "it responded with 410"
		s.stopAll()
	case ep.FailingSince.IsZero():
		ep.FailingSince = now
	case now.Sub(ep.FailingSince) > failingLimit:
		ep.Disabled, ep.Reason = true, "attempts kept failing for more than 24 hours"
		s.stopAll()
	}
}

// maxResponse is the maximum number of bytes that are read from a response.
const maxResponse = 64 << 10

// post makes one request to an endpoint. A nil body is a probe. The attempt counts as
// delivered if Err is empty.
func (s *Sender) post(url string, body []byte, how Signature) (a model.Attempt) {
	a = model.Attempt{At: s.Clock.Now(), Probe: body == nil, RequestBody: body}
	defer func() {
		if a.Probe && a.Err != "" {
			a.Err = "probe: " + a.Err
		}
	}()
	ctx, cancel := context.WithTimeout(s.ctx, s.Behaviors.Get().SendTimeout())
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		a.IPAddress, _, _ = net.SplitHostPort(info.Conn.RemoteAddr().String())
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		a.Err = err.Error()
		return a
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dispensary-webhooks/2")
	if !how.none {
		a.Signature = s.Sign(body, how)
		req.Header.Set("SVC-Signature", a.Signature)
	}
	resp, err := s.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		err = readResponse(&a, resp)
	}
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		a.Err = fmt.Sprintf("no response within %s", s.Behaviors.Get().SendTimeout())
	case err != nil:
		a.Err = err.Error()
	default:
		a.Err = s.judge(a)
	}
	return a
}

func readResponse(a *model.Attempt, resp *http.Response) error {
	a.Status = resp.StatusCode
	a.IPAddress = cmp.Or(a.IPAddress, memhttp.Address) // without a connection
	var header bytes.Buffer
	_ = resp.Header.Write(&header) // a buffer never fails
	a.ResponseHeader = header.String()
	response, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	a.ResponseBody = string(response)
	return err
}

// judge returns the problem of a response, or "". API section: "Webhooks" 3.
func (s *Sender) judge(a model.Attempt) string {
	if a.Status != http.StatusOK && a.Status != http.StatusCreated {
		return fmt.Sprintf("status %d is neither 200 nor 201", a.Status)
	}
	var response struct {
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal([]byte(a.ResponseBody), &response); err != nil {
		return "the response is not JSON"
	}
	if response.Challenge != s.App.ChallengeToken {
		return "the response does not contain the challenge token"
	}
	return ""
}

// Signature contains the options for signing a request.
type Signature struct {
	none  bool
	shift time.Duration // of the timestamp
	with  string        // used in place of the secret
}

// Sign returns the signature header for a body at the current time.
func (s *Sender) Sign(body []byte, how Signature) string {
	return signature.Header(cmp.Or(how.with, s.App.WebhookSecret), s.Clock.Now().Add(how.shift), body)
}

func (s *Sender) probeSignature() Signature {
	return Signature{none: s.Behaviors.Get().Is(behavior.ProbeSignatureUnsigned)}
}
