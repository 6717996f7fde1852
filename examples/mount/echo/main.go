// Echo mounts the webhook handler in a router of github.com/labstack/echo:
//
//	go run ./examples/mount/echo
//
// It also starts a fake platform, and a patient places an order.
package main

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func main() { shop.Main("echo", routes) }

// routes is the router of a program with other routes. Never bind the body with c.Bind in front of the
// webhooks. BodyLimit is safe. BodyDump restores the body but dumps patient data.
func routes(webhooks http.Handler) http.Handler {
	e := echo.New()
	e.Use(middleware.Recover(), middleware.BodyLimit("2M"))
	e.POST(shop.WebhookPath, echo.WrapHandler(webhooks))
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "the shop\n") })
	return e
}
