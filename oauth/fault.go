package oauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// ConfigError says that the platform refuses the application itself: its
// ClientID, ClientSecret or RedirectURL is not what the dashboard has. It says
// nothing about any user, and none is marked. After a refresh that met it, a
// [Client] asks for no refresh for a minute, for no user; tokens that are still
// valid are used on. What one user's refresh token may have caused (invalid_request,
// invalid_scope, and 401 without a code) pauses the others only when a second user
// meets it within five minutes. Exchanging a code pauses nobody.
type ConfigError struct {
	// Environment is the application's environment. Credentials of another
	// environment are the most frequent reason.
	Environment api.Environment

	// Code is the platform's error code, for example "invalid_client"; empty
	// if the answer was a bare 401.
	Code string

	err error
}

// Error names the environment, the code and the fields to look at.
func (e *ConfigError) Error() string {
	code := e.Code
	if code == "" {
		code = "unauthorized"
	}
	return "dispensary: the platform refuses the application (" + code + "): check ClientID, ClientSecret and RedirectURL for " + e.Environment.String()
}

// Unwrap returns the platform's answer, an [*api.Error].
func (e *ConfigError) Unwrap() error { return e.err }

// configCodes are the answers that blame the application. The last two are an
// assumption: the API lists no codes, and RFC 6749 none for a redirect address.
var configCodes = []string{
	"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_request", "invalid_scope",
	"invalid_redirect_uri", "redirect_uri_mismatch",
}

// explain turns an answer that blames the application into a [ConfigError].
// Every other answer stays what it is: whatever is not understood passes for
// a failure of the moment, which logs nobody out.
func (c *Client) explain(err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.StatusCode < 400 || e.StatusCode >= 500 {
		return err
	}
	code := e.Code
	if code == "" {
		if messages := e.Messages(); len(messages) > 0 && slices.Contains(configCodes, messages[0]) {
			code = messages[0] // a code that the RFC does not list is told as a message
		}
	}
	if slices.Contains(configCodes, code) || (code == "" && e.StatusCode == http.StatusUnauthorized) {
		return &ConfigError{Environment: c.Environment(), Code: code, err: err}
	}
	return err
}

// ofOneUser reports an answer that a single user's refresh token may have caused:
// RFC 6749 has the same codes for a malformed one, and a bare 401 may mean anything.
func (e *ConfigError) ofOneUser() bool {
	return e.Code == "" || e.Code == "invalid_request" || e.Code == "invalid_scope"
}

const (
	// faultPause is how long no refresh is tried after the application was refused.
	faultPause = time.Minute

	// suspicion is how soon a second user has to meet what may be the fault of one.
	suspicion = 5 * time.Minute
)

// faults remembers how the platform refuses the application, which all users share.
type faults struct {
	mu     sync.Mutex
	err    *ConfigError // nil while all is well
	until  time.Time    // end of the pause
	raised bool         // the alarm

	suspect   Key // who met last what may be the fault of one user
	suspected time.Time
}

// paused returns the application's fault, and until when refreshing pauses for it.
func (f *faults) paused() (*ConfigError, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err, f.until
}

// clear forgets everything: a refresh has worked.
func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.until, f.raised, f.suspect = nil, time.Time{}, false, Key{}
}

// note tells whether a refusal that a user met pauses everybody, and whether that is
// new.
func (f *faults) note(user Key, refusal *ConfigError) (pauses, alarm bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if refusal.ofOneUser() {
		other := f.suspect != (Key{}) && f.suspect != user && now.Sub(f.suspected) < suspicion
		f.suspect, f.suspected = user, now
		if !other {
			return false, false
		}
	}
	alarm = !f.raised
	f.err, f.until, f.raised = refusal, now.Add(faultPause), true
	return true, alarm
}

// refused returns the application's fault while refreshing pauses for it.
func (c *Client) refused() error {
	if err, until := c.faults.paused(); time.Now().Before(until) {
		return err
	}
	return nil
}

// noteFault remembers whether the refresh of a user found the application refused.
func (c *Client) noteFault(ctx context.Context, user Key, err error) {
	var refusal *ConfigError
	switch {
	case err == nil:
		c.faults.clear()
		return
	case !errors.As(err, &refusal):
		return
	}
	pauses, alarm := c.faults.note(user, refusal)
	if !pauses {
		return
	}
	c.logger.LogAttrs(ctx, slog.LevelError, "dispensary oauth: the platform refuses the application; refreshing pauses for all users",
		slog.String("environment", c.Environment().String()), slog.Any("error", refusal), slog.Duration("pause", faultPause))
	if alarm {
		_, until := c.faults.paused()
		c.notify(ctx, ConfigFault{Err: refusal, Until: until})
	}
}
