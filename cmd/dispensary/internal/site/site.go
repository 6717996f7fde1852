// Package site turns the Markdown of package docs into a site: static files that need
// neither a server nor a network, can be read without scripts, and follow the reader's
// choice of dark or light colours.
//
// Markdown is rendered by github.com/yuin/goldmark, which Hugo uses, and which has no
// dependencies. A site generator would bring hundreds; what is left for this package is
// the frame around a page, the links between pages, and the index of names.
package site

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed page.html style.css search.js icon.svg
var assets embed.FS

// Policy is the content security policy that the site works under.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// indexPage is the page with every name, which can be searched.
const indexPage = "names.html"

// Site is a set of files. It is an [http.Handler] that serves them.
type Site struct {
	files map[string][]byte
}

// New makes the site of Markdown pages: README.md is the first page, and the pages of
// packages are in packages. It fails if a page links to one that is not there.
func New(pages fs.FS) (*Site, error) {
	frame, err := template.ParseFS(assets, "page.html")
	if err != nil {
		return nil, err
	}
	s := &Site{files: map[string][]byte{}}
	for _, name := range []string{"style.css", "search.js", "icon.svg"} {
		if s.files[name], err = assets.ReadFile(name); err != nil {
			return nil, err
		}
	}
	r := newRenderer(pages)
	var all []*page
	err = fs.WalkDir(pages, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		p, err := r.render(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range append(all, names(all)) {
		var out bytes.Buffer
		if err := frame.Execute(&out, p); err != nil {
			return nil, err
		}
		s.files[p.Name] = out.Bytes()
	}
	return s, nil
}

// Files are the names of the files, in order.
func (s *Site) Files() []string { return slices.Sorted(maps.Keys(s.files)) }

// File returns a file, and nil if there is none of that name.
func (s *Site) File(name string) []byte { return s.files[name] }

// Write writes the files below a folder, which is made if it is not there.
func (s *Site) Write(folder string) error {
	for name, content := range s.files {
		name = filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this site is only read", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	content, ok := s.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Content-Type", contentType(name))
	header.Set("Content-Security-Policy", Policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache")
	_, _ = w.Write(content) // fails only when the browser went away
}

// contentType is that of a file of the site, whatever the machine knows about endings.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		return mime.TypeByExtension(path.Ext(name)) // of HTML and CSS, which are built in
	}
}
