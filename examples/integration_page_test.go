// Package examples tests that the programs in docs/integration.md compile and run as printed.
package examples

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// block is a fenced block of a page, with its language.
var block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// section returns the blocks of a language in a section of a page.
func section(t *testing.T, name, heading, language string) []string {
	t.Helper()
	page, err := os.ReadFile(name)
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "\n## "+heading+"\n")
	require.True(t, found, heading)
	text, _, _ = strings.Cut(text, "\n## ")
	var blocks []string
	for _, match := range block.FindAllStringSubmatch(text, -1) {
		if match[1] == language {
			blocks = append(blocks, match[2])
		}
	}
	return blocks
}

// build builds a program outside of this repository, as the README describes: in a module of
// its own and a workspace with the modules that it uses.
func build(t *testing.T, program string, modules ...string) (binary string) {
	t.Helper()
	folder := t.TempDir()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o600))
	workspace := []string{"work", "init", ".", root}
	for _, module := range modules {
		workspace = append(workspace, filepath.Join(root, module))
	}
	for _, arguments := range [][]string{{"mod", "init", "ehr.example"}, workspace, {"build", "-o", "ehr", "."}} {
		command := exec.CommandContext(t.Context(), "go", arguments...)
		command.Dir = folder
		command.Env = append(os.Environ(), "GOWORK=", "PWD="+folder)
		output, err := command.CombinedOutput()
		require.NoError(t, err, "go %s: %s", strings.Join(arguments, " "), output)
	}
	return filepath.Join(folder, "ehr")
}

func TestProgramOfReadme(t *testing.T) {
	t.Parallel()
	programs := section(t, "../README.md", "Call the API", "go")
	require.Len(t, programs, 1)
	output, err := exec.CommandContext(t.Context(), build(t, programs[0])).Output()
	require.NoError(t, err)
	assert.Equal(t, "Maple Hollow Integrative Clinic\n", string(output))
}

// A package that imports the fake platform does not compile its internals. Generic types reachable
// through the API of the fake would be compiled again in each test package, which takes seconds.
func TestImportersDoNotCompileThePlatform(t *testing.T) {
	t.Parallel()
	for name, tables := range map[string]bool{"../dispensarytest": true, "./scene": false} {
		output, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-f", "{{.Export}}", name).Output()
		require.NoError(t, err)
		archive, err := os.ReadFile(strings.TrimSpace(string(output)))
		require.NoError(t, err)
		assert.Equal(t, tables, bytes.Contains(archive, []byte("dispensarytest/internal/table.")), name)
	}
}

// A practitioner connects to the second program, a patient orders, and an interrupt stops the
// program. Its variables are those of the page.
func TestWholeIntegration(t *testing.T) {
	t.Parallel()
	programs, listed := section(t, "../docs/integration.md", "Build a service for many users", "go"), section(t, "../docs/integration.md", "Build a service for many users", "")
	require.Len(t, programs, 1)
	require.Len(t, listed, 1)
	binary := build(t, programs[0], "integration/sqlite", "oauth/sqlstore", "webhook/sqlinbox")

	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	platform := dispensarytest.New(t, dispensarytest.WithRedirectURI("http://"+address+"/dispensary/callback"),
		dispensarytest.WithBehavior(behavior.DeliveryConditionsOff), dispensarytest.WithTuning(dispensarytest.Tuning{DeliveryTimeout: time.Minute}))
	site, app := platform.Site(), platform.Application()
	database, key := "sqlite:"+filepath.Join(t.TempDir(), "dispensary.db"), "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	values := map[string]string{
		"BASE_URL": site.BaseURL, "AUTH_URL": site.AuthURL, "CLIENT_ID": app.ClientID, "CLIENT_SECRET": app.ClientSecret,
		"REDIRECT_URL": app.RedirectURI, "WEBHOOK_SECRETS": app.WebhookSecret, "WEBHOOK_CHALLENGE": app.ChallengeToken, "CLINIC_KEY": platform.ClinicKey(),
		"RATE_LIMIT": "5000/5m", "STORE": database, "INBOX": database, "SEAL_KEYS": "2026:" + key, "STATE_KEYS": key,
	}
	program := exec.CommandContext(t.Context(), binary)
	program.Env = append(os.Environ(), "LISTEN="+address, "CLINIC_ID="+practitioner(t, platform).ClinicID)
	for line := range strings.Lines(listed[0]) {
		name, _, _ := strings.Cut(line, "=")
		value := values[strings.TrimPrefix(strings.TrimPrefix(name, "DISPENSARY_"), "US_SANDBOX_")]
		require.NotEmpty(t, value, name)
		program.Env = append(program.Env, name+"="+value)
	}
	var log strings.Builder
	program.Stderr = &log
	output, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, free.Close())
	require.NoError(t, program.Start())
	waitReady(t, "http://"+address+"/readyz")

	response, err := platform.Browser(practitioner(t, platform)).Authorize(t.Context(), "http://"+address+"/dispensary/connect?return_to=/readyz")
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Contains(t, string(body), `"status":"ok"`)
	require.NoError(t, platform.Webhooks.Register("http://"+address+"/webhooks/us-sandbox", model.EventOrderPlaced))
	order, _, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan())
	assert.Equal(t, "order "+order.Number, lines.Text())
	require.NoError(t, program.Process.Signal(os.Interrupt))
	require.NoError(t, program.Wait(), "%s", &log)
}

func practitioner(t *testing.T, platform *dispensarytest.Server) model.User {
	t.Helper()
	for _, user := range platform.Users() {
		if user.Type == model.UserPractitioner {
			return user
		}
	}
	require.Fail(t, "no practitioner")
	return model.User{}
}

// waitReady waits until the program, which has just started, responds.
func waitReady(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		return err == nil && response.StatusCode == http.StatusOK && response.Body.Close() == nil
	}, 2*time.Minute, 20*time.Millisecond)
}
