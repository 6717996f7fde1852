package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
)

// bodyless hides the length of a body, so the client sends it in chunks.
type bodyless struct{ io.Reader }

func TestHandlerDetectsConsumedBody(t *testing.T) {
	t.Parallel()
	swallow := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for name, c := range map[string]struct {
		middleware func(http.ResponseWriter, *http.Request)
		chunked    bool
		body       string
		want       error
		text       string
	}{
		"read":          {middleware: swallow, want: webhook.ErrBodyConsumed, text: fmt.Sprintf("%d bytes announced, 0 found", len(orderBody))},
		"read, chunked": {middleware: swallow, chunked: true, want: webhook.ErrBodyConsumed, text: "no bytes are left"},
		"closed":        {middleware: func(_ http.ResponseWriter, r *http.Request) { _ = r.Body.Close() }, want: webhook.ErrBodyConsumed},
		"replaced":      {middleware: func(_ http.ResponseWriter, r *http.Request) { r.Body = http.NoBody }, want: webhook.ErrBodyConsumed},
		"nil":           {middleware: func(_ http.ResponseWriter, r *http.Request) { r.Body = nil }, want: webhook.ErrBodyConsumed},
		"read in part":  {middleware: func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 10)) }, want: webhook.ErrBodyConsumed, text: fmt.Sprintf("%d bytes announced, %d found", len(orderBody), len(orderBody)-10)},
		"encoded again": {middleware: encodeAgain, body: strings.ReplaceAll(orderBody, ",", ", "), want: webhook.ErrBodyConsumed},
		"restored": {middleware: func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(b))
		}},
		"untouched":      {middleware: func(http.ResponseWriter, *http.Request) {}},
		"chunked":        {middleware: func(http.ResponseWriter, *http.Request) {}, chunked: true},
		"chunked, empty": {middleware: func(http.ResponseWriter, *http.Request) {}, chunked: true, body: " "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := orderBody
			if c.body != "" {
				body = strings.TrimSpace(c.body)
			}
			done := make(chan webhook.Observation, 1)
			r := newFixture(t, func(config *webhook.HandlerConfig) {
				config.Observer.RequestEnd = func(_ context.Context, o webhook.Observation) { done <- o }
			})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				c.middleware(w, req)
				r.ServeHTTP(w, req)
			}))
			defer server.Close()
			reader := io.Reader(strings.NewReader(body))
			if c.chunked {
				reader = bodyless{reader}
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, reader)
			require.NoError(t, err)
			req.Header.Set(webhook.SignatureHeader, sign(secret, now, body))
			response, err := server.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			o := <-done
			require.ErrorIs(t, o.Err, c.want)
			if c.want == nil {
				assert.Equal(t, http.StatusOK, response.StatusCode)
				return
			}
			assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
			assert.ErrorContains(t, o.Err, c.text)
		})
	}
}

// encodeAgain is middleware that decodes the body and replaces it with its own encoding.
func encodeAgain(_ http.ResponseWriter, r *http.Request) {
	var v any
	_ = json.NewDecoder(r.Body).Decode(&v)
	body, _ := json.Marshal(v)
	r.Body = io.NopCloser(bytes.NewReader(body))
}

func TestHandlerLimitsBodySize(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(c *webhook.HandlerConfig) { c.MaxBody = 100_000 })
	for _, length := range []int64{-1, 90_000} { // no announced length, and a wrong one
		body := &counting{}
		req := request(http.MethodPost, sign(secret, now, ""), "")
		req.Body, req.ContentLength = io.NopCloser(body), length
		assert.Equal(t, http.StatusRequestEntityTooLarge, r.serve(t, req).Code)
		require.ErrorIs(t, r.last().Err, webhook.ErrBodyTooLarge)
		assert.LessOrEqual(t, body.n, 200_000, "the handler must not read an endless body")
	}
}

// counting is an endless body that counts the bytes read.
type counting struct{ n int }

func (c *counting) Read(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func TestHandlerReadsLargeBodies(t *testing.T) {
	t.Parallel()
	body := strings.Replace(orderBody, "R100", strings.Repeat("R", 500_000), 1)
	r := newFixture(t, nil)
	for _, length := range []int64{int64(len(body)), -1} {
		req := request(http.MethodPost, sign(secret, now, body), body)
		req.ContentLength = length
		assert.Equal(t, http.StatusOK, r.serve(t, req).Code)
	}
	assert.Equal(t, body, string(r.accepted[0].Body))
}

func TestHandlerRejectsIncompleteBody(t *testing.T) {
	t.Parallel()
	done := make(chan webhook.Observation, 1)
	r := newFixture(t, func(config *webhook.HandlerConfig) {
		config.Observer.RequestEnd = func(_ context.Context, o webhook.Observation) { done <- o }
	})
	server := httptest.NewServer(r)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\nSVC-Signature: "+sign(secret, now, orderBody)+"\r\n\r\n"+orderBody)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	response, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Contains(t, string(response), "400 Bad Request")
	o := <-done
	require.ErrorIs(t, o.Err, webhook.ErrBodyUnreadable)
}

// A slow or missing body must not block the handler. net/http also reads the body of a rejected
// request before it sends the response.
func TestHandlerLimitsTimeForBody(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{"signed": sign(secret, now, orderBody), "unsigned": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, func(c *webhook.HandlerConfig) {
				c.BodyTimeout = 10 * time.Millisecond
				c.Observer = webhook.Observer{}
			})
			server := httptest.NewServer(r)
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\nSVC-Signature: "+header+"\r\n\r\n{")
			require.NoError(t, err)
			response, err := io.ReadAll(conn)
			require.NoError(t, err)
			assert.Regexp(t, "^HTTP/1.1 40[01] ", string(response))
		})
	}
}

// The limit ends after the body was read. It stays for an unread body, because net/http reads it.
// A shorter limit of the server stays, and a request without a body has no limit.
func TestHandlerRestoresReadDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   string
		forged bool
		server *http.Server
		calls  int
	}{
		"not read":     {body: orderBody, forged: true, calls: 1},
		"body":         {body: orderBody, calls: 2},
		"no body":      {},
		"long limit":   {body: orderBody, server: &http.Server{ReadTimeout: time.Minute}, calls: 2},
		"short limit":  {body: orderBody, server: &http.Server{ReadTimeout: time.Second}},
		"server alone": {body: orderBody, server: &http.Server{}, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			req := request(http.MethodPost, sign(secret, now, c.body), c.body)
			if c.forged {
				req.Header.Set(webhook.SignatureHeader, "x")
			}
			if c.server != nil {
				req = req.WithContext(context.WithValue(req.Context(), http.ServerContextKey, c.server))
			}
			r.ServeHTTP(w, req)
			assert.Equal(t, c.forged, w.Code != http.StatusOK)
			require.Len(t, w.set, c.calls)
			for n, at := range w.set {
				assert.Equal(t, n == 1, at.IsZero())
			}
		})
	}
}

// deadlines is a writer that records read deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}
