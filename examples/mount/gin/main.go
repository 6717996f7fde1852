// Gin mounts the webhooks in a router of github.com/gin-gonic/gin:
//
//	go run ./examples/mount/gin
//
// It starts a fake of the platform beside itself, and lets a patient order.
package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func init() { gin.SetMode(gin.ReleaseMode) }

func main() { shop.Main("gin", routes) }

// routes is the router of a program that does other things, too. Nothing in front
// of the webhooks may bind the body: c.ShouldBindJSON reads it, and so does
// c.ShouldBindBodyWithJSON, which keeps a copy for itself alone.
func routes(webhooks http.Handler) http.Handler {
	r := gin.New()
	r.Use(gin.Recovery())
	r.POST(shop.WebhookPath, gin.WrapH(webhooks))
	r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "the shop\n") })
	return r
}
