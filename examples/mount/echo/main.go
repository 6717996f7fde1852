// Echo mounts the webhooks in a router of github.com/labstack/echo:
//
//	go run ./examples/mount/echo
//
// It starts a fake of the platform beside itself, and lets a patient order.
package main

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func main() { shop.Main("echo", routes) }

// routes is the router of a program that does other things, too. Nothing in front
// of the webhooks may bind the body with c.Bind. BodyLimit is fine, and so would
// BodyDump be, which puts back what it read; but what it dumps are patients.
func routes(webhooks http.Handler) http.Handler {
	e := echo.New()
	e.Use(middleware.Recover(), middleware.BodyLimit("2M"))
	e.POST(shop.WebhookPath, echo.WrapHandler(webhooks))
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "the shop\n") })
	return e
}
