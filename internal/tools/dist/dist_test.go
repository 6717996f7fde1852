package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newRelease returns a release without files, and programs with text contents.
func newRelease(t *testing.T) (*release, []program) {
	t.Helper()
	r := &release{
		version: "1.2.3", commit: strings.Repeat("c0ffee11", 5), time: time.Unix(1_790_000_000, 0).UTC(),
		checkout: "../../..", out: t.TempDir(), systems: systems,
	}
	var programs []program
	folder := t.TempDir()
	for _, s := range systems {
		for _, name := range []string{command, fake} {
			p := program{name: name, system: s, path: filepath.Join(folder, s.os, s.arch, name), notices: []byte("licenses")}
			if s.os == "windows" {
				p.path += ".exe"
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(p.path), 0o700))
			require.NoError(t, os.WriteFile(p.path, []byte(name+" for "+s.os+" on "+s.arch), 0o600))
			programs = append(programs, p)
		}
	}
	for _, p := range programs {
		require.NoError(t, r.writeArchive(p))
	}
	require.NoError(t, r.writeFormula(programs))
	require.NoError(t, r.writePackages(programs))
	require.NoError(t, r.writeImage(programs))
	require.NoError(t, r.writeChecksums())
	return r, programs
}

// read returns a file of a release.
func (r *release) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.out, name))
	require.NoError(t, err)
	return data
}

// unpack returns the files of a tar by name, and checks their times and owners.
func (r *release) unpack(t *testing.T, from io.Reader) map[string]entry {
	t.Helper()
	archive, found := tar.NewReader(from), map[string]entry{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		data, err := io.ReadAll(archive)
		require.NoError(t, err)
		if r.time.IsZero() { // of a release from .ci/release
			r.time = header.ModTime
		}
		assert.True(t, header.ModTime.Equal(r.time), header.Name)
		assert.Zero(t, header.Uid+header.Gid, header.Name)
		found[header.Name] = entry{header.Name, header.FileInfo().Mode(), data}
	}
}

func (r *release) unpackTarball(t *testing.T, name string) map[string]entry {
	t.Helper()
	from, err := gzip.NewReader(bytes.NewReader(r.read(t, name)))
	require.NoError(t, err)
	return r.unpack(t, from)
}

func TestEqualReleasesHaveEqualFiles(t *testing.T) {
	t.Parallel()
	first, _ := newRelease(t)
	second, _ := newRelease(t)
	files, err := os.ReadDir(first.out)
	require.NoError(t, err)
	assert.Len(t, files, 10+1+1+5+1+1, "archives, formula, npm, image, checksums")
	for _, file := range files {
		assert.Equal(t, first.read(t, file.Name()), second.read(t, file.Name()), file.Name())
	}
}

func TestArchivesContainProgram(t *testing.T) {
	t.Parallel()
	r, _ := newRelease(t)
	found := r.unpackTarball(t, "dispensary-fake_1.2.3_darwin_arm64.tar.gz")
	assert.Equal(t, entry{fake, 0o755, []byte("dispensary-fake for darwin on arm64")}, found[fake])
	assert.Contains(t, string(found["LICENSE"].data), "MIT License")
	assert.Contains(t, string(found["README.md"].data), "# dispensary-fake 1.2.3\n")
	assert.Equal(t, "licenses", string(found["THIRD_PARTY_NOTICES.txt"].data))
	assert.Len(t, found, 4)

	archive := r.read(t, "dispensary_1.2.3_windows_amd64.zip")
	opened, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	require.NoError(t, err)
	names := make([]string, 0, 4)
	for _, file := range opened.File {
		names = append(names, file.Name)
	}
	assert.Equal(t, []string{"LICENSE", "THIRD_PARTY_NOTICES.txt", "README.md", "dispensary.exe"}, names)
}

// checkFormula compares the URLs and checksums in the formula with the archives. It returns their
// processors and names.
func (r *release) checkFormula(t *testing.T) (archives [][2]string) {
	t.Helper()
	base := `https://github\.com/dispensary-go/dispensary/releases/download/cmd%2Fdispensary%2Fv([^/]*)/`
	lines := regexp.MustCompile(`on_(\w+) do\n      url "` + base + `(.*)"\n      sha256 "(.*)"`)
	for _, found := range lines.FindAllStringSubmatch(string(r.read(t, "dispensary.rb")), -1) {
		assert.Contains(t, found[3], "dispensary_"+found[2]+"_")
		sum, err := r.digest(found[3])
		require.NoError(t, err)
		assert.Equal(t, sum, found[4])
		archives = append(archives, [2]string{found[1], found[3]})
	}
	return archives
}

func TestFormulaMatchesArchives(t *testing.T) {
	t.Parallel()
	r, _ := newRelease(t)
	assert.Equal(t, [][2]string{
		{"intel", "dispensary_1.2.3_darwin_amd64.tar.gz"}, {"arm", "dispensary_1.2.3_darwin_arm64.tar.gz"},
		{"intel", "dispensary_1.2.3_linux_amd64.tar.gz"}, {"arm", "dispensary_1.2.3_linux_arm64.tar.gz"},
	}, r.checkFormula(t))
	assert.Regexp(t, `(?s)on_macos do.*darwin.*on_linux do.*linux`, string(r.read(t, "dispensary.rb")))
}

func TestFormulaParses(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Skip("ruby is not installed")
	}
	r, _ := newRelease(t)
	out, err := exec.CommandContext(t.Context(), "ruby", "-c", filepath.Join(r.out, "dispensary.rb")).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestPackagesForSystems(t *testing.T) {
	t.Parallel()
	r, _ := newRelease(t)
	found := r.unpackTarball(t, "dispensary-go-cli-1.2.3.tgz")
	var main manifest
	require.NoError(t, json.Unmarshal(found["package/package.json"].data, &main))
	assert.Equal(t, "@dispensary-go/cli", main.Name)
	assert.Contains(t, found, "package/"+main.Bin["dispensary"])
	assert.Len(t, main.Optional, 5)
	assert.NotContains(t, string(found["package/package.json"].data), `"scripts"`)

	found = r.unpackTarball(t, "dispensary-go-cli-win32-x64-1.2.3.tgz")
	var windows manifest
	require.NoError(t, json.Unmarshal(found["package/package.json"].data, &windows))
	assert.Equal(t, main.Optional[windows.Name], windows.Version)
	assert.Equal(t, []string{"win32"}, windows.OS)
	assert.Equal(t, []string{"x64"}, windows.CPU)
	assert.Equal(t, entry{"package/bin/dispensary.exe", 0o755, []byte("dispensary for windows on amd64")}, found["package/bin/dispensary.exe"])
}

func TestChecksumsListAllFiles(t *testing.T) {
	t.Parallel()
	r, _ := newRelease(t)
	want := map[string]string{}
	files, err := os.ReadDir(r.out)
	require.NoError(t, err)
	for _, file := range files {
		if file.Name() != "SHA256SUMS" {
			sum := sha256.Sum256(r.read(t, file.Name()))
			want[file.Name()] = hex.EncodeToString(sum[:])
		}
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(r.read(t, "SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	assert.Equal(t, want, listed)
}

func TestBillListsModules(t *testing.T) {
	t.Parallel()
	r := &release{version: "1.2.3", out: t.TempDir()}
	executable, err := os.Executable()
	require.NoError(t, err)
	info, err := buildinfo.ReadFile(executable)
	require.NoError(t, err)
	require.NoError(t, r.writeBill(program{name: "dist", system: system{"linux", "amd64"}, path: executable, info: info}))
	bill := string(r.read(t, "dist_1.2.3_linux_amd64.cdx.json"))
	assert.Contains(t, bill, `"purl": "pkg:golang/github.com/dispensary-go/dispensary/internal/tools@v1.2.3"`)
	assert.Contains(t, bill, `"purl": "pkg:golang/github.com/CycloneDX/cyclonedx-go@v`)
}

func TestCreateKeepsFiles(t *testing.T) {
	t.Parallel()
	r, programs := newRelease(t)
	require.ErrorIs(t, r.writeArchive(programs[0]), os.ErrExist)
}

// Only the release workflow has secrets. It runs only for tags of the command. It pins each action by its
// commit, because a tag can move. It passes no secrets to the checks of a change.
func TestOnlyReleaseWorkflowHasSecrets(t *testing.T) {
	t.Parallel()
	workflows, err := filepath.Glob("../../../.github/workflows/*")
	require.NoError(t, err)
	require.NotEmpty(t, workflows)
	for _, name := range workflows {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		text := string(data)
		if filepath.Base(name) != "release.yml" {
			assert.NotRegexp(t, `secrets\.|: write`, text, name)
			continue
		}
		assert.Contains(t, text, "\non:\n  push:\n    tags: [\"cmd/dispensary/v*\"]\n\n")
		assert.Contains(t, text, "\npermissions: {}\n")
		assert.NotContains(t, text, "secrets: inherit")
		for _, action := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(text, -1) {
			assert.Regexp(t, `^[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$|^\./\.github/workflows/ci\.yml$`, action[1])
		}
	}
}
