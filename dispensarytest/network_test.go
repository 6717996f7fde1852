package dispensarytest

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/openapi"
)

func TestPlatformRunsInMemory(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	assert.Equal(t, "https://platform.us.dispensary.test/api", b.fake.Site().BaseURL)
	assert.Len(t, b.get("/clinic/patients").column("patients", "id"), 5)
	b.token = b.exchange(b.code(b.fake.Users()[2])).ok(200, "oauth", "access_token").(string)
	b.send("POST", "/clinic/patients", someone()).ok(201, "patient")
	b.fake.Journal.CheckNoUnexpected(t)

	for _, address := range []string{"https://platform.ca.dispensary.test/api/clinic", "https://example.com/"} {
		_, err := b.fake.HTTPClient().Get(address)
		var lookup *net.DNSError
		require.ErrorAs(t, err, &lookup, "no other host exists")
		assert.True(t, lookup.IsNotFound)
	}
}

func TestMemoryRejectsPlainHTTP(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	b.fetch("GET", strings.Replace(b.fake.Site().BaseURL, "https:", "http:", 1)+"/clinic", "").rejected(403, "HTTPS is required")
	b.fetch("GET", strings.Replace(b.fake.Site().BaseURL, "platform.us.dispensary.test", "Platform.US.dispensary.test:443", 1)+"/clinic", "").rejected(401, "missing")
}

func TestWebhooksReachHandler(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]Option{{WithInMemory()}, {}, {WithTLS()}, {WithTuning(Tuning{DeliveryClient: &http.Client{}})}} {
		b := start(t, append(opts, WithBehavior(behavior.ProbeBeforeEach))...)
		hook := b.hosts(nil, model.EventOrderPlaced)
		_, event := b.place()
		require.NoError(t, b.wait(event))
		got := hook.all()
		require.Len(t, got, 3, "two probes and the event")
		assert.NotEmpty(t, got[2].header.Get("SVC-Signature"))
		endpoint, _ := b.fake.Webhooks.Endpoint()
		assert.Equal(t, "https://receiver.dispensary.test/webhooks", endpoint.URL)
		row := b.get("/webhooks/deliveries").ok(200, "webhook_deliveries").([]any)[0].(map[string]any)
		assert.Equal(t, "192.0.2.1", row["response_ip_address"])
	}
}

func TestHostRejectsInvalidOrigins(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	handler := http.NotFoundHandler()
	for _, origin := range []string{"", "ehr.example.com", "ftp://ehr.example.com", ehr + "/path", ehr + "?q", fake.origin, strings.ToUpper(fake.origin) + ":443"} {
		require.Error(t, fake.Host(origin, handler), origin)
	}
	require.Error(t, fake.Host(ehr, nil))
	require.Error(t, fake.Webhooks.RegisterHandler(nil))
	require.Error(t, fake.Webhooks.RegisterHandler(handler, "order.paid"))
	require.NoError(t, fake.Host(ehr+"/", handler))
	resp, err := fake.HTTPClient().Get(ehr)
	assert.Contains(t, bodyOf(t, resp, err), "not found")
	require.NoError(t, fake.Host(ehr, http.RedirectHandler(fake.Site().AuthURL, http.StatusFound)))
	resp, err = fake.HTTPClient().Get(ehr)
	assert.Contains(t, bodyOf(t, resp, err), "Not Found")
	assert.Equal(t, fake.Site().AuthURL, resp.Request.URL.String(), "a redirect leads back to the platform")
}

// Close ends running requests and rejects later ones.
func TestCloseEndsRequestsInMemory(t *testing.T) {
	t.Parallel()
	fake, err := Start(WithInMemory())
	require.NoError(t, err)
	reached, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	require.NoError(t, fake.Host(ehr, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(reached); <-release })))
	result := make(chan error)
	go func() {
		_, err := fake.HTTPClient().Get(ehr)
		result <- err
	}()
	<-reached
	upload, writer := io.Pipe()
	defer writer.Close()
	half := make(chan error)
	go func() {
		token := fake.Tokens.Issue(model.User{}).AccessToken
		req, _ := http.NewRequest("POST", fake.Site().BaseURL+"/clinic/patients", upload)
		req.Header.Set("Authorization", "Bearer "+token)
		_, err := fake.HTTPClient().Do(req)
		half <- err
	}()
	_, err = writer.Write([]byte("{")) // the platform waits for more of the body
	require.NoError(t, err)
	require.NoError(t, fake.Close())
	require.ErrorIs(t, <-result, syscall.ECONNREFUSED)
	require.Error(t, <-half)
	_, err = fake.HTTPClient().Get(fake.Site().BaseURL)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestTLSServesLoopback(t *testing.T) {
	t.Parallel()
	b := start(t, WithTLS())
	require.True(t, strings.HasPrefix(b.fake.Site().BaseURL, "https://127.0.0.1:"))
	b.get("/clinic").ok(200, "clinic")
	b.token = b.exchange(b.code(model.User{})).ok(200, "oauth", "access_token").(string)

	plain, err := http.Get("http" + strings.TrimPrefix(b.fake.Site().BaseURL, "https") + "/clinic")
	assert.Contains(t, bodyOf(t, plain, err), "HTTP request to an HTTPS server")
	assert.Equal(t, 400, plain.StatusCode)

	_, err = http.Get(b.fake.Site().BaseURL)
	require.ErrorContains(t, err, "certificate", "other clients do not trust it")
	assert.Nil(t, New(t).Certificate())
	require.NoError(t, b.fake.Certificate().VerifyHostname("localhost"))
	b.send("POST", "/clinic/patients", `{"first_name":"`+strings.Repeat("x", httpapi.MaxBody)+`"}`).rejected(413, "too large")
}

func TestTransportOptionsExcludeEachOther(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]Option{{WithInMemory(), WithTLS()}, {WithTuning(Tuning{Addr: "127.0.0.1:8080"}), WithInMemory()}} {
		_, err := Start(opts...)
		require.ErrorContains(t, err, "WithInMemory")
	}
	_, err := Start(WithTuning(Tuning{Addr: "192.0.2.1:1"}))
	require.ErrorContains(t, err, "dispensarytest: listen")
}

// A web page whose host name resolves to this machine can neither read nor change data.
func TestForeignHostNamesAreRejected(t *testing.T) {
	t.Parallel()
	b := start(t)
	for host, status := range map[string]int{
		"evil.example:80": 403, "localhost.evil.example": 403, "127.0.0.1.nip.io": 403,
		"localhost:1": 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]:80": 200,
	} {
		for _, path := range []string{"/clinic", "/../openapi.yaml"} {
			req := b.request("GET", path)
			req.Host = host
			req.Header.Set("Authorization", "Bearer "+b.token)
			resp, err := b.plain().Do(req)
			require.NoError(t, err)
			_ = resp.Body.Close()
			assert.Equal(t, status == 403, resp.StatusCode == 403, "%s %s", host, path)
		}
	}
}

// A URL is rejected if it cannot be called or contains a secret that a message could show. The
// error contains the reason.
func TestInvalidEndpointURLsAreRejected(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	for address, says := range map[string]string{
		"https://user:hunter2@ehr.example.com/hook": "must not contain a user", "https://token@ehr.example.com/": "must not contain a user",
		"ftp://127.0.0.1/": "must begin with https://", "file://host/etc/passwd": "must begin with https://",
		"http://ehr.example.com/": "plain HTTP and not on loopback", "/hook": "is not an absolute URL", "https://ehr.example.com/#hook": "without a fragment",
	} {
		err := fake.Webhooks.Register(address)
		require.ErrorContains(t, err, says, address)
		assert.NotContains(t, err.Error(), "hunter2")
		assert.NotContains(t, err.Error(), "token")
		_, err = Start(WithWebhook(address))
		require.ErrorContains(t, err, says, address)
	}
	for _, address := range []string{"https://user:hunter2@ehr.example.com/cb", "https://token@ehr.example.com/cb"} {
		_, err := Start(WithRedirectURI(address))
		require.ErrorContains(t, err, "must not contain a user")
		assert.NotContains(t, err.Error(), "token")
		assert.NotContains(t, err.Error(), "hunter2")
	}
	activate(t, fake)
	require.NoError(t, fake.Webhooks.Register("http://localhost:8080/hook?tenant=7"))
}

func TestPlatformServesContract(t *testing.T) {
	t.Parallel()
	for _, opt := range []Option{WithInMemory(), WithTLS(), WithTuning(Tuning{Addr: "127.0.0.1:0"})} {
		b := start(t, opt)
		resp, err := b.fake.HTTPClient().Get(b.fake.origin + "/openapi.yaml")
		assert.Equal(t, string(openapi.Document()), bodyOf(t, resp, err))
		assert.Equal(t, "application/yaml", resp.Header.Get("Content-Type"))
		assert.NotEmpty(t, resp.Header.Get("X-Request-Id"))
		assert.Empty(t, b.fake.Journal.Requests(), "the contract is not an API call")
		b.get("/openapi.yaml").rejected(404, "Not Found")
		resp, err = b.fake.HTTPClient().Post(b.fake.origin+"/openapi.yaml", "text/plain", http.NoBody)
		assert.Contains(t, bodyOf(t, resp, err), "Not Found")
	}
}

// A body of declared length ends with its last byte, as on a socket, even if the handler is
// still running. Reading and closing the whole body does not cancel the handler.
func TestWholeBodyEndsBeforeHandler(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			fake := New(t, WithInMemory())
			release, left := make(chan struct{}), make(chan error, 1)
			require.NoError(t, fake.Host(ehr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "5")
				_, _ = w.Write([]byte("whole"))
				_ = http.NewResponseController(w).Flush()
				<-release
				left <- r.Context().Err()
			})))
			request, err := http.NewRequest(method, ehr, nil)
			require.NoError(t, err)
			response, err := fake.HTTPClient().Do(request)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			assert.Equal(t, map[string]string{http.MethodGet: "whole"}[method], string(body))
			require.NoError(t, response.Body.Close())
			_, err = response.Body.Read(make([]byte, 1))
			require.ErrorIs(t, err, net.ErrClosed)
			close(release)
			assert.NoError(t, <-left)
		})
	}
}

// Close leaves no goroutine and no timer. A goroutine would keep the bubble open, and a timer
// would move its time.
func TestCloseLeavesNoGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, err := Start(WithInMemory(), WithBehavior(behavior.DeliveryConditionsOff))
		require.NoError(t, err)
		activate(t, fake)
		require.NoError(t, fake.Webhooks.RegisterHandler(http.NotFoundHandler()))
		_, event, err := fake.Patients.Create(model.PatientCreate{})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, fake.Webhooks.Deliveries()[0].Attempts, 1)
		require.NoError(t, fake.Close())
		_, waiting := fake.Clock.Next()
		assert.False(t, waiting, "no retry is due after Close")
		require.ErrorContains(t, fake.Webhooks.WaitDelivered(t.Context(), event.ID), "the platform was closed")
		time.Sleep(10 * time.Hour)
		assert.Len(t, fake.Webhooks.Deliveries()[0].Attempts, 1)
	})
}
