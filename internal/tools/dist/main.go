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
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
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
