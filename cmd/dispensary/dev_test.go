package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/integration"
)

// asProgram makes this test's process stand for the program of an integrator.
const asProgram = "DISPENSARY_TEST_PROGRAM"

// runProgram is what that program does, by the value of the variable.
func runProgram(what string) int {
	if what == "command" {
		main()
	}
	config, err := integration.Load(os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 10
	}
	client, err := dispensary.NewFromEnv()
	if err == nil {
		_, err = client.Clinic.Get(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 11
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Println("calls", config.Applications[0].Name())
	switch what {
	case "waits":
		<-ctx.Done()
		_, err := client.Clinic.Get(context.Background())
		fmt.Println("ended", err)
	case "fails":
		return 7
	}
	return 0
}

func TestDev(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	f := newFixture(t)
	dev := func(what string, flags ...string) (int, string, string) {
		t.Setenv(asProgram, what)
		return f.run(append(append([]string{"dev"}, flags...), "--", self)...)
	}
	code, out, stderr := dev("ends", "--region", "CA")
	require.Equal(t, exitDone, code, stderr)
	assert.Equal(t, "calls ca-sandbox\n", out)
	assert.Regexp(t, `^A test platform is at http://\S+/api, its console at http://\S+/console/\nIts control API, for dispensary trigger --control, is at http://\S+/control\n$`, stderr)

	code, out, stderr = dev("ends", "--json")
	require.Equal(t, exitDone, code, stderr)
	assert.Equal(t, 1, assertDocuments(t, "dev", out))
	assert.Equal(t, "calls us-sandbox\n", stderr)
	var settings control.Settings
	require.NoError(t, json.Unmarshal([]byte(out), &settings))
	_, err = http.Get(settings.ControlURL + "/settings")
	require.Error(t, err, "the platform ended with the program")

	code, _, stderr = dev("fails")
	assert.Equal(t, exitFailed, code)
	assert.True(t, strings.HasSuffix(stderr, "ended with exit status 7\n"), stderr)
}

// Ctrl-C ends the program, which may still call the platform, and then the platform.
func TestDevEndsInOrder(t *testing.T) {
	t.Setenv(asProgram, "waits")
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	out, stderr, code := newOutput(), newOutput(), make(chan int, 1)
	f := newFixture(t)
	go func() { code <- f.program(strings.NewReader(""), out, stderr).run(ctx, []string{"dev", "--", self}) }()
	out.after(t, "calls us-sandbox\n")
	stop()
	assert.Equal(t, exitDone, <-code, stderr.String())
	assert.Contains(t, out.String(), "ended <nil>\n")
}

func TestDevRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refused("dev wants a command to run", "dev")
	f.refused(`there is no program "no-such-program"`, "dev", "--", "no-such-program")
	f.refused("not a whole number", "dev", "--seed", "one", "--", "true")
	taken := takeAddress(t, "127.0.0.1:0")
	f.refused("--addr "+taken+": the address is in use already", "dev", "--addr", taken, "--", "true")
	f.refused("--state /none/state.json: there is no folder", "dev", "--state", "/none/state.json", "--", "true")
}
