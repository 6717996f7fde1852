package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageName is the name of the image in the registry.
const imageName = "ghcr.io/dispensary-go/dispensary-fake"

// maxImage is the maximum size of the image of one platform, in compressed bytes.
const maxImage = 20_000_000

// controlAddress is the address of the control API in the image, for the health check.
const controlAddress = "127.0.0.1:8081"

// writeImage writes the image of the fake for all architectures of Linux as a tar of an OCI layout.
func (r *release) writeImage(programs []program) (err error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		if p.name != fake || p.os != "linux" {
			continue
		}
		image, err := r.image(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	folder, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(mutate.Annotations(index, r.labels()).(v1.ImageIndex), layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name":          imageName + ":" + r.version,
	})); err != nil {
		return err
	}
	entries, err := readFolder(folder)
	if err != nil {
		return err
	}
	return r.create(fake+"_"+r.version+"_oci.tar", func(w io.Writer) error { return writeTar(w, r.time, entries) })
}

// image returns the image of one architecture.
func (r *release) image(p program) (v1.Image, error) {
	executable, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	if err := writeTarball(&content, r.time, []entry{{fake, 0o755, executable}, p.notice()}); err != nil {
		return nil, err
	}
	if content.Len() > maxImage {
		return nil, fmt.Errorf("the image for %s has %d bytes, more than %d", p.arch, content.Len(), maxImage)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(base, r.imageConfig(p))
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: repository + "/blob/main/.ci/release"},
	})
}

func (r *release) imageConfig(p program) *v1.ConfigFile {
	return &v1.ConfigFile{
		Architecture: p.arch, OS: p.os, Created: v1.Time{Time: r.time}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         "65534:65534",
			Entrypoint:   []string{"/" + fake, "--addr", "127.0.0.1:8080", "--control-addr", controlAddress},
			ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
			Labels:       r.labels(),
			Healthcheck: &v1.HealthConfig{
				Test:     []string{"CMD", "/" + fake, "--control-addr", controlAddress, "--health"},
				Interval: 10 * time.Second, Timeout: 6 * time.Second, StartPeriod: 5 * time.Second, Retries: 3,
			},
		},
	}
}

// labels returns the labels of the image and the index, see
// https://specs.opencontainers.org/image-spec/annotations.
func (r *release) labels() map[string]string {
	labels := map[string]string{
		"title": fake, "description": "A fake of the platform of a supplement dispensary",
		"source": repository, "version": r.version, "revision": r.commit, "licenses": "MIT",
		"created": r.time.Format(time.RFC3339),
	}
	long := map[string]string{}
	for name, value := range labels {
		long["org.opencontainers.image."+name] = value
	}
	return long
}

// readFolder returns all files of a folder, sorted by name.
func readFolder(folder string) (entries []entry, err error) {
	root := os.DirFS(folder)
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, name))
		entries = append(entries, entry{name, 0o644, data})
		return err
	})
	return entries, err
}
