// Sbom writes the bill of materials of a Go program in the CycloneDX format. It lists the
// modules with the versions and checksums recorded in the program.
//
//	go run ./sbom dist/dispensary-linux-amd64 v1.2.3 > dist/dispensary-linux-amd64.cdx.json
//
// The version argument is the version of this project's own modules, because they are built
// from a checkout. The bill contains neither a time nor a random number, so the same program
// always has the same bill.
package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: sbom PROGRAM VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	bill := cyclonedx.NewBOM()
	info.Main.Version = args[1]
	main := component(&info.Main, cyclonedx.ComponentTypeApplication)
	main.Properties = &[]cyclonedx.Property{{Name: "go:version", Value: info.GoVersion}}
	bill.Metadata = &cyclonedx.Metadata{Component: &main}
	modules := []cyclonedx.Component{{
		Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, BOMRef: "std", PackageURL: "pkg:golang/std@" + info.GoVersion[2:],
	}}
	for _, module := range info.Deps {
		switch {
		case module.Replace == nil:
		case strings.HasPrefix(module.Replace.Path, "."): // another module of the checkout
			module.Version = args[1]
		default:
			module = module.Replace
		}
		modules = append(modules, component(module, cyclonedx.ComponentTypeLibrary))
	}
	bill.Components = &modules
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill)
}

func component(module *debug.Module, kind cyclonedx.ComponentType) cyclonedx.Component {
	url := "pkg:golang/" + module.Path + "@" + module.Version
	c := cyclonedx.Component{Type: kind, Name: module.Path, Version: module.Version, BOMRef: url, PackageURL: url}
	if module.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}}
	}
	return c
}
