// Package webpage implements the common parts of all pages: style sheets in light and dark
// colors for windows of any width, the icon, headers that isolate a page, and readable times.
package webpage

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Base is the style sheet of all pages: colors, text, fields and buttons. A page without
// further sheets contains it in a style element.
//
//go:embed base.css
var Base template.CSS

// Icon is the icon next to the name of a page, as SVG.
//
//go:embed icon.svg
var Icon template.HTML

//go:embed style.css
var style string

//go:embed live.js
var script string

// HandleAssets serves icon.svg, style.css and live.js. The style sheet is Base plus the frame,
// tables and figures of the console and webhook/admin. The script updates open pages.
func HandleAssets(mux *http.ServeMux) {
	for name, asset := range map[string][2]string{"style.css": {"text/css", string(Base) + style}, "icon.svg": {"image/svg+xml", string(Icon)}, "live.js": {"text/javascript", script}} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", asset[0]+"; charset=utf-8")
			_, _ = io.WriteString(w, asset[1]) // fails only if the browser has disconnected
		})
	}
}

// Protect sets the headers that isolate a page: no cache stores it, no other page frames it,
// and it loads only files from its own handler. Style sheets and images are allowed by
// default. sources allows more, such as "script-src 'self'".
func Protect(header http.Header, sources ...string) {
	policy := append([]string{"default-src 'none'", "style-src 'self'", "img-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"}, sources...)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", strings.Join(policy, "; "))
	header.Set("Referrer-Policy", "same-origin")
	header.Set("X-Content-Type-Options", "nosniff")
}

// StampTime returns a time element with t in the location of now as its text, and the distance
// from now as its title. It returns "–" for the zero time.
func StampTime(t, now time.Time) template.HTML { return element(t, stamp(t, now), Ago(t, now)) }

// AgoTime returns a time element with [Ago] as its text, and the text of [StampTime] as its
// title.
func AgoTime(t, now time.Time) template.HTML { return element(t, Ago(t, now), stamp(t, now)) }

// ShortTime returns a time element with t in the location of now, formatted with form, as its
// text, and the title of [AgoTime]. It returns "–" for the zero time.
func ShortTime(t, now time.Time, form string) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return element(t, t.In(now.Location()).Format(form), stamp(t, now))
}

func stamp(t, now time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(now.Location()).Format("2006-01-02 15:04:05 MST")
}

// element returns a time element. It does not escape text, because times contain no special
// characters.
func element(t time.Time, text, title string) template.HTML {
	if t.IsZero() {
		return template.HTML(text)
	}
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `" title="` + title + `">` + text + `</time>`)
}

// Ago formats the distance of a time from now in its two largest units. It returns "never" for
// the zero time.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := t.Sub(now)
	if d < 0 {
		return span(-d) + " ago"
	}
	return "in " + span(d)
}

func span(d time.Duration) string {
	if d < time.Second {
		return "less than a second"
	}
	var text []string
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}} {
		if n := d / unit.size; n > 0 && len(text) < 2 {
			text = append(text, strconv.FormatInt(int64(n), 10)+" "+unit.name)
			d -= n * unit.size
		} else if len(text) > 0 {
			break
		}
	}
	return strings.Join(text, " ")
}

// Plain returns text with escapes for the control characters that reorder other characters, such
// as U+202E. With them, "evil" could read "live".
func Plain(text string) string { return plain.Replace(text) }

var plain = func() *strings.Replacer {
	var pairs []string
	for _, r := range "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" {
		pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
	}
	return strings.NewReplacer(pairs...)
}()

// Pretty indents JSON, and leaves any other text as it is. It escapes the text as [Plain].
func Pretty(raw []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return Plain(string(raw))
	}
	return Plain(out.String())
}

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

// Outcomes stores the results of the last 64 forms in this process. The page after a form shows
// the result by the name in its URL, so a reload does not send the form again, and a link cannot
// report a change that did not happen. The zero value is ready to use. It is safe for concurrent
// use.
type Outcomes[T any] struct {
	mu    sync.Mutex
	n     int // number of all outcomes so far
	names [64]string
	last  [64]T
}

// Keep stores a result and returns its name for a URL. Nobody can guess the name.
func (o *Outcomes[T]) Keep(result T) (name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name = rand.Text()
	o.names[o.n%len(o.names)], o.last[o.n%len(o.last)] = name, result
	o.n++
	return name
}

// Find returns a result by its name. It returns nil if the name is unknown or no longer stored.
func (o *Outcomes[T]) Find(name string) *T {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n, known := range o.names {
		if name != "" && known == name {
			result := o.last[n]
			return &result
		}
	}
	return nil
}
