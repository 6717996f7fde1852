// Gin mounts the webhook handler in a router of github.com/gin-gonic/gin:
//
//	go run ./examples/mount/gin
//
// It also starts a fake platform, and a patient places an order.
package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func init() { gin.SetMode(gin.ReleaseMode) }

func main() { shop.Main("gin", routes) }

// routes is the router of a program with other routes. Never bind the body in front of the webhooks:
// c.ShouldBindJSON and c.ShouldBindBodyWithJSON consume it.
func routes(webhooks http.Handler) http.Handler {
	r := gin.New()
	r.Use(gin.Recovery())
	r.POST(shop.WebhookPath, gin.WrapH(webhooks))
	r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "the shop\n") })
	return r
}
