package admin_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// fixture is a page mounted at a prefix, with its inbox.
type fixture struct {
	*testing.T
	inbox    *memoryinbox.Inbox
	made     <-chan webhook.Attempt
	page     *admin.Handler
	url      string // ends with a slash
	repaired bool   // makes handlers succeed; set it only while none runs
}

// staff is the context key of the user, set by the program's login.
type staff struct{}

// newFixture creates the page of an inbox. Until repaired is set, its handlers fail
// permanently, with an error that contains patient data. change may be nil.
func newFixture(t *testing.T, change func(*fixture, *admin.Config)) *fixture {
	t.Helper()
	f := &fixture{T: t}
	work := webhook.Work{Workers: 1, Retry: webhook.RetryPolicy{BackOff: time.Hour, MaxBackOff: time.Hour}}
	work.Handle = func(_ context.Context, e events.Event) error {
		if f.repaired {
			return nil
		}
		if e.Type == events.TypeOrderPlaced { // retried in an hour
			return fmt.Errorf("%s: %w", receivertest.Canary, &api.Error{Operation: "orders.get", StatusCode: 503, RequestID: "r-1"})
		}
		return webhook.Permanent(fmt.Errorf("no such patient: %s", receivertest.Canary))
	}
	f.made = receivertest.Observe(&work)
	var err error
	f.inbox, err = memoryinbox.New(memoryinbox.Config{Work: work})
	require.NoError(t, err)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = f.inbox.Close(ended) // returns its events
	})
	config := admin.Config{Engine: f.inbox, Name: "production"}
	if change != nil {
		change(f, &config)
	}
	f.page, err = admin.New(config)
	require.NoError(t, err)
	mux := http.NewServeMux()
	login := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), staff{}, "jo")))
		})
	}
	mux.Handle("/ops/webhooks/", login(http.StripPrefix("/ops/webhooks", f.page)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f.url = server.URL + "/ops/webhooks/"
	return f
}

// accept passes an event to the inbox, and waits for its first attempt.
func (f *fixture) accept(change func(*webhook.Delivery)) webhook.Delivery {
	f.Helper()
	d := receivertest.NewDelivery()
	if change != nil {
		change(&d)
	}
	_, err := f.inbox.Accept(f.Context(), d)
	require.NoError(f, err)
	<-f.made
	return d
}

// waiting changes a delivery so that its handler fails and the event waits for a retry.
func waiting(d *webhook.Delivery) {
	d.Type, d.Body = events.TypeOrderPlaced, []byte(strings.Replace(string(d.Body), "patient.updated", "order.placed", 1))
}

// die creates n dead letters.
func (f *fixture) die(n int) (all []webhook.Delivery) {
	f.Helper()
	for range n {
		all = append(all, f.accept(nil))
	}
	return all
}

// read returns the body of a response, and requires its status.
func (f *fixture) read(status int, response *http.Response, err error) string {
	f.Helper()
	require.NoError(f, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(f, err)
	require.Equal(f, status, response.StatusCode, "%s", body)
	return string(body)
}

// get opens a page.
func (f *fixture) get(path string) string {
	f.Helper()
	response, err := http.Get(f.url + path)
	return f.read(http.StatusOK, response, err)
}

// post sends a form, follows redirects, and requires the final status.
func (f *fixture) post(status int, path string, form url.Values) string {
	f.Helper()
	response, err := http.PostForm(f.url+path, form)
	return f.read(status, response, err)
}

var (
	hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	button = regexp.MustCompile(`<button name="([^"]*)" value="([^"]*)"`)
)

// press sends the form of a page with a given path, using its first button.
func (f *fixture) press(page, path string) string {
	f.Helper()
	_, form, found := strings.Cut(page, `method="post" action="`+path+`"`)
	require.True(f, found, "no form with path %s", path)
	form, _, _ = strings.Cut(form, "</form>")
	values := url.Values{}
	for _, field := range append(hidden.FindAllStringSubmatch(form, -1), button.FindAllStringSubmatch(form, 1)...) {
		values.Add(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	return f.post(http.StatusOK, path, values)
}

// link returns the URL of the link whose text ends with words.
func (f *fixture) link(page, words string) string {
	f.Helper()
	found := regexp.MustCompile(`href="([^"]*)"[^>]*>[^<]*` + words + `</a>`).FindStringSubmatch(page)
	require.NotNil(f, found, "no link %q", words)
	return html.UnescapeString(found[1])
}

func eventPath(d webhook.Delivery) string { return "event?key=" + url.QueryEscape(d.Key.String()) }

var errAudit = errors.New("the audit log is full")
