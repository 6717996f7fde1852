package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	gomod "golang.org/x/mod/module"
)

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
