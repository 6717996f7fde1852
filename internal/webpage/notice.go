package webpage

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
)

// Notice is a page with one message. It contains Base and needs no other file.
type Notice struct {
	// Name is the name of the product, shown at the top of the page and in its title.
	Name string

	Title, Text string

	// Reference is an ID for support. Empty shows none.
	Reference string

	// Links are the links below the message. The first one looks like a button.
	Links []Link
}

// Link is a link of a [Notice].
type Link struct{ URL, Text string }

//go:embed notice.html
var noticeText string

var noticeTemplate = template.Must(template.New("notice").Funcs(template.FuncMap{"base": func() template.CSS { return Base }}).Parse(noticeText))

// noticePolicy allows Base by its digest, and no other content.
var noticePolicy = func() string {
	digest := sha256.Sum256([]byte(Base))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// Write sends the page with a status, and with headers against caching and framing.
func (n *Notice) Write(w http.ResponseWriter, status int) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", noticePolicy)
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = noticeTemplate.Execute(w, n) // fails only if the browser has disconnected
}
