package oauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// ConfigError says that the platform refuses the application itself: its
// ClientID, ClientSecret or RedirectURL is not what the dashboard has. It says
// nothing about any user, and none is marked. After it, a [Client] asks for no
// refresh for a minute, for no user; tokens that are still valid are used on.
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

// faultPause is how long no refresh is tried after the application was refused.
const faultPause = time.Minute

// fault is a refusal of the application that all users share.
type fault struct {
	err   *ConfigError
	until time.Time
}

// refused returns the application's fault while refreshing pauses for it.
func (c *Client) refused() error {
	if f := c.fault.Load(); f != nil && time.Now().Before(f.until) {
		return f.err
	}
	return nil
}

// noteFault remembers whether the last refresh found the application refused.
func (c *Client) noteFault(ctx context.Context, err error) {
	var refusal *ConfigError
	if !errors.As(err, &refusal) {
		if err == nil {
			c.fault.Store(nil)
		}
		return
	}
	until := time.Now().Add(faultPause)
	before := c.fault.Swap(&fault{err: refusal, until: until})
	c.logger.LogAttrs(ctx, slog.LevelError, "dispensary oauth: the platform refuses the application; refreshing pauses for all users",
		slog.String("environment", c.Environment().String()), slog.Any("error", refusal), slog.Duration("pause", faultPause))
	if before == nil {
		c.notify(ctx, ConfigFault{Err: refusal, Until: until})
	}
}
