// Dist builds all files of a release from a checkout. It publishes and signs nothing:
//
//   - an archive and a software bill of materials (SBOM) of each program for each system
//   - a Homebrew formula and npm packages of the command
//   - the image of the fake
//   - checksums of all these files
//
// The files contain no time except the time of the commit, so equal commits give equal bytes.
//
//	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) go run ./dist -commit $(git rev-parse HEAD) ../.. ../../dist
//
// The first argument is the checkout. The second is an empty folder for the files.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	commit := flag.String("commit", "", "the commit of the checkout, `SHA`")
	quick := flag.Bool("quick", false, "build for this system only")
	flag.Parse()
	r := release{commit: *commit, checkout: flag.Arg(0), out: flag.Arg(1), systems: systems}
	if *commit == "" || flag.NArg() != 2 {
		_, _ = fmt.Fprintln(os.Stderr, "usage: dist -commit SHA [-quick] CHECKOUT FOLDER")
		os.Exit(2)
	}
	if *quick {
		r.systems = []system{{runtime.GOOS, runtime.GOARCH}}
	}
	if err := r.build(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// build writes all files.
func (r *release) build() (err error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH must be the time of the commit in seconds")
	}
	r.time = time.Unix(seconds, 0).UTC()
	if r.version, err = r.readVersion(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "dist")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	programs, err := r.compile(folder)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range programs {
		group.Go(func() error { return errors.Join(r.writeArchive(p), r.writeBill(p)) })
	}
	group.Go(func() error { return r.writePackages(programs) })
	group.Go(func() error { return r.writeImage(programs) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := r.writeFormula(programs); err != nil {
		return err
	}
	return r.writeChecksums()
}

const (
	repository = "https://github.com/dispensary-go/dispensary"
	module     = "github.com/dispensary-go/dispensary"
)

// command and fake are the names of the programs.
const (
	command = "dispensary"
	fake    = "dispensary-fake"
)

// system is an operating system and an architecture, with Go's names.
type system struct{ os, arch string }

var systems = []system{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
}

// release contains the data for all files of a release.
type release struct {
	version  string // without v
	commit   string
	time     time.Time // of the commit
	checkout string
	out      string
	systems  []system
}

// program is a compiled program.
type program struct {
	name string
	system
	path    string
	info    *debug.BuildInfo // with the modules
	notices []byte           // licenses of others
}

// notice returns the licenses of others as a file.
func (p program) notice() entry { return entry{"THIRD_PARTY_NOTICES.txt", 0o644, p.notices} }

// fileName returns the name of the executable in archives and packages.
func (p program) fileName() string { return filepath.Base(p.path) }

// readVersion returns the version of the root module in the go.mod of the command: 0.0.0 before the first
// release. All modules have the same version.
func (r *release) readVersion() (string, error) {
	version, err := r.run(nil, "list", "-m", "-f", "{{.Version}}", module)
	return strings.TrimPrefix(strings.TrimSpace(version), "v"), err
}

// compile builds all programs into a folder, with the toolchain of this program.
func (r *release) compile(folder string) (programs []program, err error) {
	folders, err := r.run(nil, "env", "GOROOT", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	goroot, cache, _ := strings.Cut(strings.TrimSpace(folders), "\n")
	for _, s := range r.systems {
		into := filepath.Join(folder, s.os, s.arch) + string(filepath.Separator)
		environment := []string{"GOOS=" + s.os, "GOARCH=" + s.arch}
		if _, err := r.run(environment, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", into, ".", "./"+fake); err != nil {
			return nil, err
		}
		for _, name := range []string{command, fake} {
			p := program{name: name, system: s, path: into + name}
			if s.os == "windows" {
				p.path += ".exe"
			}
			if p.info, err = buildinfo.ReadFile(p.path); err != nil {
				return nil, err
			}
			if p.notices, err = noticesOf(p.info, goroot, cache); err != nil {
				return nil, err
			}
			programs = append(programs, p)
		}
	}
	return programs, nil
}

// run runs Go in the module of the programs, and returns its output.
func (r *release) run(environment []string, args ...string) (string, error) {
	run := exec.Command("go", args...)
	run.Dir = filepath.Join(r.checkout, "cmd", command)
	run.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN="+runtime.Version())
	run.Env = append(run.Env, environment...)
	out, err := run.Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		err = fmt.Errorf("go %s: %w\n%s", args[0], err, failed.Stderr)
	}
	return string(out), err
}

// create writes a file of the release. It fails if the file exists.
func (r *release) create(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(filepath.Join(r.out, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r *release) createFile(name string, data []byte) error {
	return r.create(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// encodeJSON returns an indented document.
func encodeJSON(document any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(document)
	return out.Bytes(), err
}

// digest returns the SHA-256 of a file of the release in hex.
func (r *release) digest(name string) (string, error) {
	file, err := os.Open(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // read-only
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hex.EncodeToString(hash.Sum(nil)), err
}

// writeChecksums writes the digests of all other files, for sha256sum --check.
func (r *release) writeChecksums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, file := range files {
		sum, err := r.digest(file.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, file.Name())
	}
	return r.createFile("SHA256SUMS", []byte(lines.String()))
}
