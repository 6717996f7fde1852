package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// world contains the application and the platform, each with a server.
type world struct {
	home     string
	platform *dispensarytest.Server
	app      *app
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.app.routes().ServeHTTP(rw, r) }))
	t.Cleanup(server.Close)
	w.home = server.URL
	w.platform = dispensarytest.New(t, dispensarytest.WithRedirectURI(w.home+callbackPath), dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 2}}))
	registered := w.platform.Application()
	var err error
	w.app, err = newApp(w.platform.Site(), registered.ClientID, dispensary.NewSecret(registered.ClientSecret), w.home, w.platform.Users()[0].ClinicID)
	require.NoError(t, err)
	return w
}

// user returns a platform user of a type.
func (w *world) user(t *testing.T, kind string) model.User {
	t.Helper()
	for _, user := range w.platform.Users() {
		if user.Type == kind {
			return user
		}
	}
	t.Fatal("the platform has no ", kind)
	return model.User{}
}

func body(t *testing.T, answer *http.Response, err error) string {
	t.Helper()
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

func (w *world) send(t *testing.T, method, path, site string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.home+path, nil)
	require.NoError(t, err)
	if site != "" {
		request.Header.Set("Sec-Fetch-Site", site)
	}
	answer, err := http.DefaultClient.Do(request)
	return body(t, answer, err)
}

const connectPath = "/dispensary/connect?return_to=/"

func TestPractitionerConnectsAndDisconnects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	assert.Contains(t, w.send(t, http.MethodGet, "/", ""), "not connected")

	answer, err := w.platform.Browser(w.user(t, model.UserPractitioner)).Authorize(t.Context(), w.home+connectPath)
	page := body(t, answer, err)
	assert.Equal(t, w.home+"/", answer.Request.URL.String(), "no code is left in the address")
	assert.Contains(t, page, "<strong>connected</strong> with ")
	w.platform.Journal.CheckRequested(t, "clinic.get")

	assert.Contains(t, w.send(t, http.MethodPost, "/disconnect", "cross-site"), "cross-origin")
	assert.Contains(t, w.send(t, http.MethodGet, "/", ""), "<strong>connected</strong>")
	assert.Contains(t, w.send(t, http.MethodPost, "/disconnect", "same-origin"), "not connected")
	w.platform.Journal.CheckRequested(t, "oauth.revoke")
	w.platform.Journal.CheckNoUnexpected(t)
}

func TestPractitionerCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer, err := w.platform.Browser(w.user(t, model.UserPractitioner)).Cancel(t.Context(), w.home+connectPath)
	assert.Contains(t, body(t, answer, err), "You did not authorize the connection")
	assert.Empty(t, w.platform.Journal.Requests("oauth.token"))
	assert.Contains(t, w.send(t, http.MethodGet, "/", ""), "not connected")
}

// The application does not accept staff accounts, so it revokes their tokens immediately.
func TestStaffAreNotAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer, err := w.platform.Browser(w.user(t, model.UserStaff)).Authorize(t.Context(), w.home+connectPath)
	assert.Contains(t, body(t, answer, err), "Wrong account")
	assert.Equal(t, http.StatusForbidden, answer.StatusCode)
	w.platform.Journal.CheckRequested(t, "oauth.revoke")
}

// Otherwise the practitioner would see the patients of another clinic as their own.
func TestAccountOfAnotherClinicIsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := w.platform.Users()
	at := slices.IndexFunc(users, func(u model.User) bool { return u.Type == model.UserPractitioner && u.ClinicID != users[0].ClinicID })
	require.Positive(t, at)
	answer, err := w.platform.Browser(users[at]).Authorize(t.Context(), w.home+connectPath)
	assert.Contains(t, body(t, answer, err), "Wrong account")
	assert.Equal(t, http.StatusForbidden, answer.StatusCode)
	assert.Contains(t, w.send(t, http.MethodGet, "/", ""), "not connected")
}

// A disconnected practitioner connects again.
func TestPractitionerConnectsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		answer, err := w.platform.Browser(w.user(t, model.UserPractitioner)).Authorize(t.Context(), w.home+connectPath)
		assert.Contains(t, body(t, answer, err), "<strong>connected</strong>")
		assert.Contains(t, w.send(t, http.MethodPost, "/disconnect", "same-origin"), "not connected")
	}
}

func TestRunServesAndEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, address := make(chan error, 1), make(chan string, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", func(at string) { address <- at }) }()
	w := &world{home: <-address}
	assert.True(t, strings.Contains(w.send(t, http.MethodGet, "/", ""), "not connected"))
	cancel()
	require.NoError(t, <-ended)
}
