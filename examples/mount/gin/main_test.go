package main

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/dispensary-go/dispensary/examples/mount/mounttest"
	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func TestMounted(t *testing.T) {
	t.Parallel()
	mounttest.Run(t, routes)
}

// behind mounts the webhook handler behind a middleware for all routes.
func behind(middleware gin.HandlerFunc) mounttest.Mount {
	return func(webhooks http.Handler) http.Handler {
		r := gin.New()
		r.Use(middleware)
		r.POST(shop.WebhookPath, gin.WrapH(webhooks))
		return r
	}
}

func TestBodyIsBound(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, behind(func(c *gin.Context) {
		var body struct{ Tenant string }
		_ = c.ShouldBindJSON(&body) // a probe has no body
	}))
}

func TestBodyIsBoundWithACopy(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, behind(func(c *gin.Context) {
		var body struct{ Tenant string }
		_ = c.ShouldBindBodyWithJSON(&body)
	}))
}
