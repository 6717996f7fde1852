package main

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// extract writes the files of an archive into a folder.
func extract(t *testing.T, folder string, files map[string]entry) {
	t.Helper()
	for name, file := range files {
		name = filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, file.data, file.mode))
	}
}

// openImages returns the images in the OCI layout by architecture. It checks their sizes.
func (r *release) openImages(t *testing.T, name string) map[string]v1.Image {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	folder := t.TempDir()
	extract(t, folder, r.unpack(t, file))
	index, err := layout.ImageIndexFromPath(folder)
	require.NoError(t, err)
	top, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, top.Manifests, 1)
	assert.Equal(t, r.version, top.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	index, err = index.ImageIndex(top.Manifests[0].Digest)
	require.NoError(t, err)
	platforms, err := index.IndexManifest()
	require.NoError(t, err)
	images := map[string]v1.Image{}
	for _, m := range platforms.Manifests {
		image, err := index.Image(m.Digest)
		require.NoError(t, err)
		manifest, err := image.Manifest()
		require.NoError(t, err)
		size := m.Size + manifest.Config.Size
		for _, layer := range manifest.Layers {
			size += layer.Size
		}
		assert.LessOrEqual(t, size, int64(20_000_000), m.Platform.Architecture)
		t.Logf("%s/%s: %d bytes compressed", m.Platform.OS, m.Platform.Architecture, size)
		images[m.Platform.Architecture] = image
	}
	return images
}

func TestImageContainsProgramAndNotices(t *testing.T) {
	t.Parallel()
	r, _ := newRelease(t)
	images := r.openImages(t, filepath.Join(r.out, "dispensary-fake_1.2.3_oci.tar"))
	require.Len(t, images, 2)
	for architecture, image := range images {
		config, err := image.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, architecture, config.Architecture)
		assert.True(t, config.Created.Equal(r.time))
		assert.Equal(t, "65534:65534", config.Config.User)
		assert.Contains(t, config.Config.ExposedPorts, "8080/tcp")
		for name, want := range map[string]string{"source": repository, "version": "1.2.3", "revision": r.commit, "licenses": "MIT"} {
			assert.Equal(t, want, config.Config.Labels["org.opencontainers.image."+name])
		}
		program, notices := entry{fake, 0o755, []byte("dispensary-fake for linux on " + architecture)}, program{notices: []byte("licenses")}.notice()
		assert.Equal(t, map[string]entry{fake: program, notices.name: notices}, r.layer(t, image))
	}
}

// layer returns the files of the only layer of an image.
func (r *release) layer(t *testing.T, image v1.Image) map[string]entry {
	t.Helper()
	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer func() { _ = content.Close() }()
	return r.unpack(t, content)
}

// container returns a command that runs in the root of an image, as its user.
func container(t *testing.T, root string, config v1.Config, args ...string) *exec.Cmd {
	t.Helper()
	run := exec.CommandContext(t.Context(), args[0], args[1:]...)
	run.Dir, run.Env = "/", config.Env
	credential := &syscall.Credential{}
	_, err := fmt.Sscanf(config.User, "%d:%d", &credential.Uid, &credential.Gid)
	require.NoError(t, err)
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: credential}
	return run
}

func TestBuiltImageStartsWithoutRoot(t *testing.T) {
	t.Parallel()
	name := built(t, "dispensary-fake_*_oci.tar")
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	r := &release{}
	_, r.version, _ = strings.Cut(strings.TrimSuffix(filepath.Base(name), "_oci.tar"), "_")
	image := r.openImages(t, name)[runtime.GOARCH]
	require.NotNil(t, image)
	file, err := image.ConfigFile()
	require.NoError(t, err)
	config, root := file.Config, t.TempDir()
	extract(t, root, r.layer(t, image))

	// The ports of the image may be in use on this machine.
	args := append(slices.Clone(config.Entrypoint), "--json", "--addr", "127.0.0.1:0", "--control-addr", "127.0.0.1:0")
	platform := start(t, container(t, root, config, args...))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", platform.Process.Pid))
	require.NoError(t, err)
	assert.Contains(t, string(status), "\nUid:\t65534\t65534\t65534\t65534\nGid:\t65534\t65534\t65534\t65534\n")
	control, err := url.Parse(platform.ControlURL)
	require.NoError(t, err)
	require.Equal(t, "CMD", config.Healthcheck.Test[0])
	assert.Subset(t, config.Healthcheck.Test, config.Entrypoint[3:], "both have the same --control-addr")
	health := append(config.Healthcheck.Test[1:], "--control-addr", control.Host)
	require.NoError(t, container(t, root, config, health...).Run())

	platform.end(t, func() error { return platform.Process.Signal(syscall.SIGTERM) })
	require.NoError(t, platform.Wait())
	assert.Error(t, container(t, root, config, health...).Run())
}
