package main

import (
	"debug/buildinfo"
	"io"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes the SBOM of a program: its Go modules with versions and checksums. It contains no time and
// no random number.
func (r *release) writeBill(p program) error {
	info, err := buildinfo.ReadFile(p.path)
	if err != nil {
		return err
	}
	return r.create(r.stem(p)+".cdx.json", func(w io.Writer) error { return encodeBill(w, info, "v"+r.version) })
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
	for _, module := range info.Deps {
		switch {
		case module.Replace == nil:
		case strings.HasPrefix(module.Replace.Path, "."): // another module of the checkout
			module.Version = version
		default:
			module = module.Replace
		}
		modules = append(modules, component(module, cyclonedx.ComponentTypeLibrary))
	}
	bill.Components = &modules
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill)
}

func component(module *debug.Module, kind cyclonedx.ComponentType) cyclonedx.Component {
	url := "pkg:golang/" + module.Path + "@" + module.Version
	c := cyclonedx.Component{Type: kind, Name: module.Path, Version: module.Version, BOMRef: url, PackageURL: url}
	if module.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}}
	}
	return c
}
