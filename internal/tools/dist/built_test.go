//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// built returns the path of the only file of .ci/release with this pattern.
func built(t *testing.T, pattern string) string {
	t.Helper()
	folder := os.Getenv("DISPENSARY_TEST_DIST")
	if folder == "" {
		t.Skip(".ci/release runs this test")
	}
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, "%s", pattern)
	return found[0]
}

func TestBuiltFormulaMatchesArchives(t *testing.T) {
	t.Parallel()
	r := &release{out: filepath.Dir(built(t, "dispensary.rb"))}
	assert.NotEmpty(t, r.checkFormula(t))
}

// started is a running fake platform.
type started struct {
	*exec.Cmd
	output     *bufio.Reader
	BaseURL    string `json:"base_url"`
	ControlURL string `json:"control_url"`
}

// start starts a fake platform with --json in a process group, and waits until it responds.
func start(t *testing.T, program *exec.Cmd) *started {
	t.Helper()
	if program.SysProcAttr == nil {
		program.SysProcAttr = &syscall.SysProcAttr{}
	}
	program.SysProcAttr.Setpgid = true
	program.Stderr = os.Stderr
	output, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	t.Cleanup(func() { _ = syscall.Kill(-program.Process.Pid, syscall.SIGKILL) })
	s := &started{Cmd: program, output: bufio.NewReader(output)}
	line, err := s.output.ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(line, s))
	response, err := http.Get(s.BaseURL + "/clinic")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
	return s
}

// end calls kill and waits until the platform has stopped.
func (s *started) end(t *testing.T, kill func() error) {
	t.Helper()
	require.NoError(t, kill())
	_, err := io.Copy(io.Discard, s.output)
	require.NoError(t, err)
	_, err = http.Get(s.BaseURL + "/clinic")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// install installs the npm packages of this system without a network, and returns the folder.
func install(t *testing.T) string {
	t.Helper()
	here := system{runtime.GOOS, runtime.GOARCH}
	folder := t.TempDir()
	npm := exec.CommandContext(t.Context(), "npm", "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts",
		"--cache", t.TempDir(), built(t, "dispensary-go-cli-[0-9]*.tgz"), built(t, "dispensary-go-cli-"+here.npmOS()+"-"+here.npmCPU()+"-*.tgz"))
	npm.Dir = folder
	out, err := npm.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return folder
}

func TestBuiltPackagesRun(t *testing.T) {
	t.Parallel()
	folder := install(t)
	npx := exec.CommandContext(t.Context(), "npx", "--offline", "dispensary", "fake", "--json")
	npx.Dir = folder
	run := start(t, npx)
	run.end(t, func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGINT) }) // like Ctrl-C

	wrapper := filepath.Join(folder, "node_modules", ".bin", command)
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		fake := start(t, exec.CommandContext(t.Context(), wrapper, "fake", "--json"))
		fake.end(t, func() error { return fake.Process.Signal(signal) })
		require.NoError(t, fake.Wait(), "exit code 0 after %s", signal)
	}

	rejected := exec.CommandContext(t.Context(), wrapper, "fake", "--bogus")
	require.Error(t, rejected.Run())
	assert.Equal(t, 2, rejected.ProcessState.ExitCode())
	killed := exec.CommandContext(t.Context(), wrapper, "dev", "--", "sh", "-c", "kill -9 $PPID")
	require.EqualError(t, killed.Run(), "signal: killed")

	require.NoError(t, os.RemoveAll(filepath.Join(folder, "node_modules", filepath.FromSlash(system{runtime.GOOS, runtime.GOARCH}.npmName()))))
	out, err := exec.CommandContext(t.Context(), wrapper, "--version").CombinedOutput()
	require.Error(t, err)
	assert.True(t, strings.HasPrefix(string(out), "dispensary: the package @dispensary-go/cli-"), "%s", out)
}

// The notices name every module of the SBOM except those of this repository.
func TestBuiltNoticesNameAllModules(t *testing.T) {
	t.Parallel()
	name := built(t, command+"_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	r := &release{out: filepath.Dir(name)}
	notices := string(r.unpackTarball(t, filepath.Base(name))["THIRD_PARTY_NOTICES.txt"].data)
	var bill struct {
		Components []struct{ Name, Version string }
	}
	require.NoError(t, json.Unmarshal(r.read(t, strings.TrimSuffix(filepath.Base(name), ".tar.gz")+".cdx.json"), &bill))
	require.NotEmpty(t, bill.Components)
	for _, c := range bill.Components {
		if c.Name != "std" && !strings.HasPrefix(c.Name, module) {
			assert.Contains(t, notices, "\n"+c.Name+" "+c.Version+": ")
		}
	}
	assert.Contains(t, notices, "\nGo go1.")
	assert.Contains(t, notices, "Mozilla Public License")
}
