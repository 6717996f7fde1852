package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	gomod "golang.org/x/mod/module"
)

// writeBill writes the SBOM of a program: its Go modules with versions and checksums. It contains no time and
// no random number.
func (r *release) writeBill(p program) error {
	return r.create(r.stem(p)+".cdx.json", func(w io.Writer) error { return encodeBill(w, p.info, "v"+r.version) })
}

// encodeBill writes an SBOM as CycloneDX. version is the version of this project's modules, because a checkout
// has none.
func encodeBill(w io.Writer, info *debug.BuildInfo, version string) error {
	bill := cyclonedx.NewBOM()
	info.Main.Version = version
	main := component(&info.Main, cyclonedx.ComponentTypeApplication)
	main.Properties = &[]cyclonedx.Property{{Name: "go:version", Value: info.GoVersion}}
	bill.Metadata = &cyclonedx.Metadata{Component: &main}
	modules := []cyclonedx.Component{{
		Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, BOMRef: "std", PackageURL: "pkg:golang/std@" + info.GoVersion[2:],
	}}
	for _, dependency := range info.Deps {
		built, own := builtFrom(dependency)
		if own {
			built.Version = version
		}
		modules = append(modules, component(built, cyclonedx.ComponentTypeLibrary))
	}
	bill.Components = &modules
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill)
}

// builtFrom returns the module that a program contains for a dependency, and reports whether it is
// another module of the checkout.
func builtFrom(dependency *debug.Module) (module *debug.Module, own bool) {
	switch {
	case dependency.Replace == nil:
		return dependency, false
	case strings.HasPrefix(dependency.Replace.Path, "."):
		return dependency, true
	}
	return dependency.Replace, false
}

func component(module *debug.Module, kind cyclonedx.ComponentType) cyclonedx.Component {
	url := "pkg:golang/" + module.Path + "@" + module.Version
	c := cyclonedx.Component{Type: kind, Name: module.Path, Version: module.Version, BOMRef: url, PackageURL: url}
	if module.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}}
	}
	return c
}

// licenseFile matches the names of license files.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// noticesOf returns the licenses of Go and of all third-party modules in a program. Most of these
// licenses require a copy in a binary distribution. It fails if a module has none.
func noticesOf(info *debug.BuildInfo, goroot, cache string) ([]byte, error) {
	var out bytes.Buffer
	if err := addLicenses(&out, "Go "+info.GoVersion, goroot); err != nil {
		return nil, err
	}
	for _, dependency := range info.Deps {
		built, own := builtFrom(dependency)
		if own {
			continue
		}
		escaped, err := gomod.EscapePath(built.Path)
		if err != nil {
			return nil, err
		}
		folder := filepath.Join(cache, filepath.FromSlash(escaped)+"@"+built.Version)
		if err := addLicenses(&out, built.Path+" "+built.Version, folder); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// addLicenses adds the license files of a folder under a title.
func addLicenses(out *bytes.Buffer, title, folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	found := false
	for _, file := range files {
		if file.IsDir() || !licenseFile.MatchString(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n%s: %s\n\n%s\n\n", strings.Repeat("-", 80), title, file.Name(), bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no license file", title)
	}
	return nil
}
