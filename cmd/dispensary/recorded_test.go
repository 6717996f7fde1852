package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/testkit/mistakes"
	"github.com/dispensary-go/dispensary/webhook"
)

var update = flag.Bool("update", false, "rewrite the recordings in docs/command.md")

// commandPage contains recorded output between <!-- recorded: NAME --> and <!-- end -->.
const commandPage = "../../docs/command.md"

// recording is the terminal output of commands.
type recording struct {
	*fixture
	text strings.Builder
	same []string // pairs of a text that varies between runs, and its replacement
}

// newRecording returns a recording with a fake platform whose data is the same in every run.
func newRecording(t *testing.T) *recording {
	t.Helper()
	r := &recording{fixture: newFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{Seed: 1}), dispensarytest.WithBehavior(behavior.DeliveryTimeout5s))}
	r.terminal = true
	r.stands(r.folder+"/", "", strings.TrimPrefix(r.platform.Site().BaseURL, "http://"), "127.0.0.1:8443/api")
	return r
}

// stands adds pairs of a text and its replacement.
func (r *recording) stands(texts ...string) { r.same = append(r.same, texts...) }

// prompt records the command line of a command.
func (r *recording) prompt(args ...string) {
	fmt.Fprintf(&r.text, "$ dispensary %s\n", strings.Join(args, " "))
}

// runs runs a command to its end and records its output.
func (r *recording) runs(code int, args ...string) {
	r.t.Helper()
	r.prompt(args...)
	out := newOutput()
	require.Equal(r.t, code, r.program(strings.NewReader(""), out, out).run(r.t.Context(), args), "%s", out)
	r.text.WriteString(out.String())
}

// starts starts a command. Its function end records the output and ends the command.
func (r *recording) starts(args ...string) (out *output, end func(code int)) {
	r.prompt(args...)
	out = newOutput()
	ctx, stop := context.WithCancel(r.t.Context())
	ended := make(chan int, 1)
	go func() { ended <- r.program(strings.NewReader(""), out, out).run(ctx, args) }()
	return out, func(code int) {
		r.t.Helper()
		r.text.WriteString(out.String())
		stop()
		require.Equal(r.t, code, <-ended, "%s", out)
	}
}

// Texts that vary between runs.
var (
	timesOfDay = regexp.MustCompile(`T?\d\d:\d\d:\d\d`)
	moments    = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	durations  = regexp.MustCompile(`\b\d[\d.]* ?(ms|s)( {2,}|\n)`)
	uuids      = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	localWords = regexp.MustCompile(`\blocal_[A-Z2-7]{26}\b`)
	ages       = regexp.MustCompile(`\b\d+ s( ago|,| apart)`)
	addresses  = regexp.MustCompile(`127\.0\.0\.1:\d{5}\b`)
)

// Styles and blanks at the ends of lines, which a recording omits.
var (
	styles = regexp.MustCompile("\x1b\\[[0-9]+m")
	blanks = regexp.MustCompile(" *\n")
)

// screen returns the recorded text without variations: times increase by one second per line,
// durations are short, and ids, secrets and addresses are numbered in order of appearance.
func (r *recording) screen() string {
	text := strings.NewReplacer(r.same...).Replace(r.text.String())
	second := 0
	text = timesOfDay.ReplaceAllStringFunc(text, func(at string) string {
		if at[0] == 'T' {
			return at
		}
		second++
		return fmt.Sprintf("09:30:%02d", second)
	})
	text = moments.ReplaceAllString(text, "2026-03-02T09:00:00Z")
	text = ages.ReplaceAllString(text, "1 s$1")
	text = durations.ReplaceAllStringFunc(text, func(took string) string {
		short := "1ms"
		if strings.Contains(took, " ms") {
			short = "1 ms"
		}
		end := strings.TrimLeft(took, "0123456789. ms")
		return short + strings.Repeat(" ", max(0, len(took)-len(end)-len(short))) + end
	})
	text = numbered(text, uuids, func(n int) string {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte{byte(n)}))
		return strings.Join([]string{sum[:8], sum[8:12], "4" + sum[13:16], "8" + sum[17:20], sum[20:32]}, "-")
	})
	text = numbered(text, localWords, func(n int) string {
		sum := sha256.Sum256([]byte{byte(n)})
		return "local_" + base32.StdEncoding.EncodeToString(sum[:])[:26]
	})
	text = numbered(text, addresses, func(n int) string { return fmt.Sprintf("127.0.0.1:%d", 40000+n) })
	return blanks.ReplaceAllString(styles.ReplaceAllString(text, ""), "\n")
}

// numbered replaces the matches of a pattern. Equal matches get the same replacement.
func numbered(text string, pattern *regexp.Regexp, by func(n int) string) string {
	seen := map[string]string{}
	return pattern.ReplaceAllStringFunc(text, func(match string) string {
		if seen[match] == "" {
			seen[match] = by(len(seen))
		}
		return seen[match]
	})
}

// listens records a listener whose receiver rejects one event once.
func (r *recording) listens() {
	to := newDestination(r.t)
	r.stands(to.url, "http://127.0.0.1:3000/webhooks")
	r.withToken()
	r.stands(" --interval 20ms", "")
	out, end := r.starts("listen", "--forward-to", to.url, "--interval", "20ms")
	with := receiverSecrets{out.after(r.t, "webhook secret"), out.after(r.t, "challenge token")}
	to.configure(r.t, with)
	patient, registered, err := r.platform.Patients.Create(model.PatientCreate{})
	require.NoError(r.t, err)
	out.after(r.t, registered.ID)
	to.handler.Store(nil)
	r.order()
	out.after(r.t, "status 503")
	to.configure(r.t, with)
	out.after(r.t, "  2        200     yes")
	_, planned, err := r.platform.Plans.Create(patient.ID, model.PlanCreate{})
	require.NoError(r.t, err)
	out.after(r.t, planned.ID)
	end(exitDone)
}

// examines records doctor for an integration with two dead letters, and with a proxy that rewrites
// bodies in front of the endpoint.
func (r *recording) examines() {
	address := r.integrates()
	r.stands(address, "http://127.0.0.1:3000/webhooks/us-sandbox")
	r.runs(exitFailed, "doctor", "--webhook", address, "--operation", "patients.create")
}

// integrates runs a program with a complete integration and a connected user. Its handler fails for
// two orders, and the proxy breaks the webhook of a third. It returns the URL of the webhook
// endpoint.
func (r *recording) integrates() string {
	t, file := r.t, "sqlite:"+filepath.Join(r.folder, "ehr.db")
	registered := r.platform.Application()
	r.variables["DISPENSARY_STORE"], r.variables["DISPENSARY_INBOX"] = file, file
	r.variables["DISPENSARY_SEAL_KEYS"] = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	r.variables["DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS"] = registered.WebhookSecret
	r.variables["DISPENSARY_US_SANDBOX_WEBHOOK_CHALLENGE"] = registered.ChallengeToken
	config, err := integration.Load(environment(r.variables))
	require.NoError(t, err)
	app, err := integration.Open(t.Context(), config, integration.Setup{Work: webhook.Work{
		Handle: func(context.Context, events.Event) error { return webhook.Permanent(errors.New("no such product")) },
	}})
	require.NoError(t, err)
	running := make(chan error, 1)
	go func() { running <- app.Run(context.WithoutCancel(t.Context())) }()
	var behindProxy atomic.Bool
	mux := http.NewServeMux()
	app.Mount(mux)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if behindProxy.Load() {
			rewrite(q)
		}
		mux.ServeHTTP(w, q)
	}))
	t.Cleanup(func() {
		server.Close()
		assert.NoError(t, app.Shutdown(context.Background()))
		assert.NoError(t, <-running)
	})
	r.connected("dr-house")
	address := server.URL + "/webhooks/us-sandbox"
	require.NoError(t, r.platform.Webhooks.Register(address))
	for range 2 {
		r.order()
	}
	require.Eventually(t, func() bool {
		stats, err := app.Inbox.Stats(t.Context())
		return err == nil && stats.Dead == 2
	}, time.Minute, 10*time.Millisecond)
	behindProxy.Store(true)
	r.order()
	require.Eventually(t, func() bool {
		all := r.platform.Webhooks.Deliveries()
		return len(all) == 3 && len(all[2].Attempts) > 0
	}, time.Minute, 10*time.Millisecond)
	return address
}

// rewrite decodes and encodes a body again, as some proxies do.
func rewrite(q *http.Request) {
	var body any
	if json.NewDecoder(q.Body).Decode(&body) != nil {
		return
	}
	again, _ := json.MarshalIndent(body, "", "  ") // never fails for decoded JSON
	q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(again)), int64(len(again))
}

// checks records a check of an endpoint that ignores the timestamp of signatures.
func (r *recording) checks() {
	r.variables["SECRET"], r.variables["CHALLENGE"] = mistakes.Secret, mistakes.Challenge
	s := mistakes.New(r.t)
	target := s.Target(s)
	mistakes.All["no tolerance"].Breaks(s, &target)
	url := serve(r.t, target.Handler)
	r.stands(url, "http://127.0.0.1:3000/webhooks", " --timeout 1m", "")
	r.runs(exitFailed, "check", url, "--secret-env", "SECRET", "--challenge-env", "CHALLENGE", "--timeout", "1m", "--run", "Signature")
}

// uses records single commands.
func (r *recording) uses() {
	t := r.t
	secrets := filepath.Join(r.folder, "secret")
	require.NoError(t, os.WriteFile(secrets, []byte(r.platform.Application().WebhookSecret), 0o600))
	head, body, _ := strings.Cut(string(r.saved()), "\r\n\r\n")
	again := strings.ReplaceAll(body, `":`, `": `)
	head = strings.Replace(head, fmt.Sprint("Content-Length: ", len(body)), fmt.Sprint("Content-Length: ", len(again)), 1)
	require.NoError(t, os.WriteFile(filepath.Join(r.folder, "delivery.http"), []byte(head+"\r\n\r\n"+again), 0o600))

	r.connected("dr-house")
	r.runs(exitDone, "accounts", "list")
	r.withControl()
	r.runs(exitDone, "api", "GET", "/clinic", "--user", "dr-house", "--jq", ".clinic.name")
	r.runs(exitDone, "trigger", "order.placed")
	r.runs(exitFailed, "verify", filepath.Join(r.folder, "delivery.http"), "--secret-file", secrets)
}

// On a busy machine a response takes seconds, and doctor reports them. The test then records again.
func TestRecordingsEqualOutput(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(commandPage)
	require.NoError(t, err)
	page := string(content)
	for name, record := range map[string]func(*recording){
		"commands": (*recording).uses, "doctor": (*recording).examines, "listen": (*recording).listens, "check": (*recording).checks,
	} {
		head := "<!-- recorded: " + name + " -->\n"
		before, rest, found := strings.Cut(page, head)
		require.True(t, found, head)
		was, after, found := strings.Cut(rest, "<!-- end -->\n")
		require.True(t, found, "no end of recording")
		text := ""
		for range 5 {
			r := newRecording(t)
			record(r)
			if text = "\n```\n" + strings.TrimRight(r.screen(), "\n") + "\n" + "```\n\n"; text == was {
				break
			}
		}
		if *update {
			page = before + head + text + "<!-- end -->\n" + after
			require.NoError(t, os.WriteFile(commandPage, []byte(page), 0o644))
			continue
		}
		assert.Equal(t, was, text, "run this test with -update")
	}
}
