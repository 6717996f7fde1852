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
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/signature"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// maxAnswer is the maximum number of bytes that are read from a response.
const maxAnswer = 64 << 10

// post makes one request to an endpoint. A nil body is a probe. The attempt counts as
// delivered if Err is empty.
func (s *Sender) post(url string, body []byte, how Signature) (a model.Attempt) {
	a = model.Attempt{At: s.Clock.Now(), Probe: body == nil, RequestBody: body}
	defer func() {
		if a.Probe && a.Err != "" {
			a.Err = "probe: " + a.Err
		}
	}()
	ctx, cancel := context.WithTimeout(s.ctx, s.Behaviors.Get().SendTimeout)
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
		a.Err = fmt.Sprintf("no answer within %s", s.Behaviors.Get().SendTimeout)
	case err != nil:
		a.Err = err.Error()
	default:
		a.Err = s.judge(a)
	}
	return a
}

func readResponse(a *model.Attempt, resp *http.Response) error {
	a.Status = resp.StatusCode
	if a.IPAddress == "" {
		a.IPAddress = memhttp.Address // no connection was used
	}
	var header bytes.Buffer
	_ = resp.Header.Write(&header) // a buffer never fails
	a.ResponseHeader = header.String()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	a.ResponseBody = string(answer)
	return err
}

// judge returns the problem of a response, or "". API section: "Webhooks" 3.
func (s *Sender) judge(a model.Attempt) string {
	if a.Status != http.StatusOK && a.Status != http.StatusCreated {
		return fmt.Sprintf("status %d is neither 200 nor 201", a.Status)
	}
	var answer struct {
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal([]byte(a.ResponseBody), &answer); err != nil {
		return "the answer is not JSON"
	}
	if answer.Challenge != s.App.ChallengeToken {
		return "the answer does not carry the challenge token"
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

func (s *Sender) probeSignature() Signature { return Signature{none: s.Behaviors.Get().UnsignedProbe} }
