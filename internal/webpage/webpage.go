// Package webpage implements the common parts of all pages: style sheets in light and dark
// colors for windows of any width, the icon, headers that isolate a page, and readable times.
package webpage

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
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
