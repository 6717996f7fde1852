package main

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/dispensary-go/dispensary/examples/mount/mounttest"
	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func TestMounted(t *testing.T) {
	t.Parallel()
	mounttest.Run(t, routes)
}

// behind mounts the webhook handler behind a middleware for all routes.
func behind(m echo.MiddlewareFunc) mounttest.Mount {
	return func(webhooks http.Handler) http.Handler {
		e := echo.New()
		e.Use(m)
		e.POST(shop.WebhookPath, echo.WrapHandler(webhooks))
		return e
	}
}

func TestBodyIsBound(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, behind(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			var body struct{ Tenant string }
			_ = c.Bind(&body) // a probe has no body
			return next(c)
		}
	}))
}

func TestBodyIsPutBack(t *testing.T) {
	t.Parallel()
	mounttest.Receives(t, behind(middleware.BodyDump(func(echo.Context, []byte, []byte) {})))
}
