// Package webpage contains the common parts of all pages: the style sheets in light and dark
// colors for windows of any width, the icon, the headers that isolate a page, and times in
// words.
package webpage

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Base is the style sheet that all pages share: colors, text, fields and buttons. A page
// without further sheets contains it in a style element.
//
//go:embed base.css
var Base template.CSS

// Icon is the mark beside the name of a page, as SVG.
//
//go:embed icon.svg
var Icon template.HTML

//go:embed style.css
var style string

// HandleAssets serves icon.svg and style.css, which is Base with the frame, tables and figures
// of the console and webhook/admin.
func HandleAssets(mux *http.ServeMux) {
	for name, asset := range map[string][2]string{"style.css": {"text/css", string(Base) + style}, "icon.svg": {"image/svg+xml", string(Icon)}} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", asset[0]+"; charset=utf-8")
			_, _ = io.WriteString(w, asset[1]) // fails only when the browser went away
		})
	}
}

// Protect sets the headers of a page that no cache stores, no other page frames, and
// that loads what its own handler serves and nothing else. Sources beyond style sheets
// and images are those that the page says, such as "script-src 'self'".
func Protect(header http.Header, sources ...string) {
	policy := append([]string{"default-src 'none'", "style-src 'self'", "img-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"}, sources...)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", strings.Join(policy, "; "))
	header.Set("Referrer-Policy", "same-origin")
	header.Set("X-Content-Type-Options", "nosniff")
}

// Stamp writes a time; "–" for none.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// StampTime returns a time element with [Stamp] as its text. Its title is the distance from now,
// and the local time if now is in another location than UTC.
func StampTime(t, now time.Time) template.HTML {
	title := Ago(t, now)
	if now.Location() != time.UTC {
		title += ", " + local(t, now)
	}
	return element(t, Stamp(t), title)
}

// AgoTime returns a time element with [Ago] as its text and the time in the location of now as
// its title.
func AgoTime(t, now time.Time) template.HTML { return element(t, Ago(t, now), local(t, now)) }

// ShortTime returns a time element with a form of the time in UTC as its text, and with the title
// of [AgoTime].
func ShortTime(t, now time.Time, form string) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return element(t, t.UTC().Format(form), local(t, now))
}

func local(t, now time.Time) string {
	return t.In(now.Location()).Format("2006-01-02 15:04:05 MST")
}

// element returns a time element. Texts of times have no special characters.
func element(t time.Time, text, title string) template.HTML {
	if t.IsZero() {
		return template.HTML(text)
	}
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `" title="` + title + `">` + text + `</time>`)
}

// Ago says how far a time is from now, in the two largest units; "never" for none.
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

// Pretty indents JSON; what is none stays as it is.
func Pretty(raw []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}
