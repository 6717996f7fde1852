package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"
	"time"
)

//go:embed files
var files embed.FS

var templates = template.Must(template.ParseFS(files, "files/*.tmpl"))

func execute(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	err := templates.ExecuteTemplate(&out, name, data)
	return out.Bytes(), err
}

// entry is a file of an archive.
type entry struct {
	name string
	mode fs.FileMode
	data []byte
}

// writeArchive packs a program with its license and a README.
func (r *release) writeArchive(p program) error {
	entries, err := r.archived(p)
	if err != nil {
		return err
	}
	pack := writeTarball
	if p.os == "windows" {
		pack = writeZip
	}
	return r.create(r.archiveName(p), func(w io.Writer) error { return pack(w, r.time, entries) })
}

func (r *release) archiveName(p program) string {
	if p.os == "windows" {
		return r.stem(p) + ".zip"
	}
	return r.stem(p) + ".tar.gz"
}

// stem returns the name of the files of a program, without an extension.
func (r *release) stem(p program) string {
	return p.name + "_" + r.version + "_" + p.os + "_" + p.arch
}

func (r *release) archived(p program) ([]entry, error) {
	license, err := r.license()
	if err != nil {
		return nil, err
	}
	executable, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	readme, err := execute("archive.md.tmpl", map[string]string{"Program": p.name, "Version": r.version, "Repository": repository})
	return []entry{license, p.notice(), {"README.md", 0o644, readme}, {p.fileName(), 0o755, executable}}, err
}

func (r *release) license() (entry, error) {
	text, err := os.ReadFile(filepath.Join(r.checkout, "LICENSE"))
	return entry{"LICENSE", 0o644, text}, err
}

// writeTarball writes entries as tar.gz.
func writeTarball(w io.Writer, modified time.Time, entries []entry) error {
	compressed := gzip.NewWriter(w)
	return errors.Join(writeTar(compressed, modified, entries), compressed.Close())
}

// writeTar writes entries with owner root.
func writeTar(w io.Writer, modified time.Time, entries []entry) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		header := tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(e.data)), ModTime: modified, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := archive.Write(e.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeZip(w io.Writer, modified time.Time, entries []entry) error {
	archive := zip.NewWriter(w)
	for _, e := range entries {
		header := zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: modified}
		header.SetMode(e.mode)
		file, err := archive.CreateHeader(&header)
		if err != nil {
			return err
		}
		if _, err := file.Write(e.data); err != nil {
			return err
		}
	}
	return archive.Close()
}
