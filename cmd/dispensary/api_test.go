package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestAPIReads(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	out, _ := f.ran("api", "GET", "/clinic", "--json")
	assert.Equal(t, 1, assertDocuments(t, "api", out))
	assert.Contains(t, out, `{"clinic":{`)

	out, _ = f.ran("api", "get", "/clinic", "--jq", ".clinic.name, (.clinic | type)")
	require.Len(t, strings.Split(out, "\n"), 3, "one text per line, without quotes: %s", out)
	assert.True(t, strings.HasSuffix(out, "\nobject\n"))

	f.terminal = true
	_, out, _ = f.run("api", "GET", "/clinic")
	assert.Contains(t, out, "{\n  \"clinic\": {\n", "indented on a terminal")
}

func TestAPIReadsAllPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	want := f.platform.Overview(0).Totals.Patients
	out, _ := f.ran("api", "GET", "/clinic/patients?page[size]=2", "-f", "order_by=ASC", "--paginate", "--jq", ".patients[].id", "--json")
	ids := map[string]bool{}
	for line := range strings.Lines(out) {
		var id string
		require.NoError(t, json.Unmarshal([]byte(line), &id))
		ids[id] = true
	}
	assert.Len(t, ids, want)
	_, out, _ = f.run("api", "GET", "/clinic/patients", "-f", "page[size]=2", "--json")
	assert.Equal(t, 1, assertDocuments(t, "api", out), "one page without --paginate")
}

// If the platform omits next_page or returns fewer records than it counts, a script must not use
// the records as a complete list.
func TestAPIReadsAllPagesOrFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meta string // after the number of the page
		args string
		code int
		ids  string
		says string
	}{
		"without next page": {`"total_pages":3,"total_count":3`, "", exitDone, "1 2 3", ""},
		"from page 2":       {`"total_pages":3,"total_count":3`, "-f page[number]=2 -f page[size]=1", exitDone, "2 3", ""},
		"cut off":           {`"total_pages":3,"total_count":50`, "", exitFailed, "1 2 3", "incomplete list: it ended after 3 of 50 records"},
		"endless":           {`"next_page":2,"total_pages":3,"total_count":3`, "", exitFailed, "1", "got page 1"},
		"no list":           {`"total_pages":3,"total_count":3`, "--jq .clinic", exitFailed, `{"clinic":{"id":"1"}}`, "has no list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t).withToken()
			f.behind(func(w http.ResponseWriter, r *http.Request) {
				number := cmp.Or(r.URL.Query().Get("page[number]"), "1")
				switch name {
				case "no list":
					_, _ = io.WriteString(w, `{"clinic":{"id":"1"}}`)
					return
				case "endless":
					number = "1"
				}
				_, _ = fmt.Fprintf(w, `{"patients":[{"id":"%[1]s"}],"meta":{"current_page":%[1]s,%[2]s}}`, number, test.meta)
			})
			code, out, stderr := f.run(append([]string{"api", "GET", "/clinic/patients", "--paginate", "--jq", ".patients[].id"}, strings.Fields(test.args)...)...)
			assert.Equal(t, test.code, code, stderr)
			assert.Equal(t, test.ids, strings.Join(strings.Fields(out), " "))
			assert.Contains(t, stderr, test.says)
		})
	}
}

func TestAPIWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	before := len(f.platform.Patients.All())
	code, out, stderr := f.run("api", "POST", "/clinic/patients", "-f", "first_name=Ada", "-f", "last_name=Lovelace",
		"-f", "email=ada@example.com", "-f", `metadata:={"id": "7"}`, "--jq", ".patient.id")
	require.Equal(t, exitDone, code, stderr)
	made, known := f.platform.Patients.Get(strings.TrimSpace(out))
	require.True(t, known)
	assert.Equal(t, "Ada", made.FirstName)

	file := filepath.Join(t.TempDir(), "patient.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"last_name": "Byron"}`), 0o600))
	f.ran("api", "PATCH", "/clinic/patients/"+made.ID, "--input", file)
	code, _, stderr = f.runWith(t.Context(), `{"first_name": "A."}`, "api", "PATCH", "/clinic/patients/"+made.ID, "--input", "-")
	require.Equal(t, exitDone, code, stderr)
	made, _ = f.platform.Patients.Get(made.ID)
	assert.Equal(t, "A. Byron", made.FirstName+" "+made.LastName)
	assert.Len(t, f.platform.Patients.All(), before+1)
}

// Invalid arguments send no request.
func TestAPIRejectsArguments(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	for args, want := range map[string]string{
		"api GET":                                  "a method and a path",
		"api GET /clinic --bogus":                  "--bogus",
		"api FETCH /clinic":                        `unknown method "FETCH": use one of GET, POST`,
		"api GET clinic":                           "is not a path",
		"api GET /clinic?a=%zz":                    "is not a path",
		"api GET /clinic -f name":                  "--field must be NAME=TEXT",
		"api POST /clinic -f a:={":                 "the value after := is not JSON",
		"api GET /clinic --jq .[":                  "--jq: ",
		"api GET /clinic --jq foo":                 "--jq: function not defined: foo/0",
		"api POST /clinic --paginate":              "--paginate works only with GET",
		"api PATCH /clinic --input none.json":      "--input: open none.json: no such file",
		"api PATCH /clinic --input api_test.go":    "--input api_test.go is not JSON",
		"api GET /clinic --environment us/sandbux": "--environment us/sandbux is not configured: use us/sandbox",
		"api GET /clinic --config none.json":       "none.json: no such file",
		"api GET /clinic --profile live":           "config.json: no such file",
	} {
		f.rejected(want, strings.Fields(args)...)
	}
	assert.Empty(t, f.platform.Journal.Requests())

	code, out, stderr := f.run("api", "GET", "/clinic/patients/999999")
	assert.Equal(t, exitFailed, code, "the platform rejects a sent call")
	assert.Contains(t, stderr, "404")
	assert.NotEmpty(t, out)
	code, out, stderr = f.run("api", "POST", "/clinic/patients", "-f", "first_name=Ada")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, out, "Email can't be blank")
	assert.NotContains(t, stderr, "Email", "only the response may contain patient data")
	f.fails("--jq: ", "api", "GET", "/clinic", "--jq", ".clinic | keys[0] + 1")

	delete(f.variables, "DISPENSARY_US_SANDBOX_BASE_URL")
	f.rejected("DISPENSARY_US_SANDBOX_BASE_URL", "api", "GET", "/clinic")
	f.variables = map[string]string{}
	f.rejected("no environment is configured", "api", "GET", "/clinic")
}

// serves returns a handler that responds to all requests with a status and a body.
func serves(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// A page of a proxy explains more than the error, so it is printed, but cannot control a terminal.
func TestAPIPrintsResponsesWithoutJSON(t *testing.T) {
	t.Parallel()
	const page = "<html>\r\n<p>\tBlocked\u009b2J\x1b]0;owned\a\n"
	for _, status := range []int{http.StatusOK, http.StatusForbidden, http.StatusNotFound} {
		f := newFixture(t)
		f.behind(serves(status, page))
		code, out, stderr := f.run("api", "GET", "/clinic")
		assert.Equal(t, exitFailed, code, stderr)
		assert.Equal(t, page, out, "a pipe gets exact bytes")
		f.terminal = true
		_, out, _ = f.run("api", "GET", "/clinic")
		assert.Equal(t, "<html>\n<p>\tBlocked\\u009b2J\\u001b]0;owned\\u0007\n", out)
		for _, flags := range [][]string{{"--json"}, {"--jq", ".clinic"}} {
			code, out, stderr = f.run(append([]string{"api", "GET", "/clinic"}, flags...)...)
			assert.Equal(t, exitFailed, code)
			assert.Empty(t, out, "stdout gets only JSON and results of the query")
			assert.Contains(t, stderr, `	Blocked\u009b2J`)
		}
		code, out, stderr = f.run("api", "POST", "/clinic/patients", "-f", "email=a@example.com")
		assert.Equal(t, exitFailed, code)
		assert.NotEmpty(t, out)
		assert.Contains(t, stderr, "write may have been applied", "a proxy may have responded")
	}
}

// A truncated successful response has the request ID of the platform.
func TestAPIReportsOutcomeOfTruncatedResponse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.behind(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "1")
		_, _ = io.WriteString(w, `{"patient":{"id":"1"}`)
	})
	code, out, stderr := f.run("api", "POST", "/clinic/patients", "-f", "email=a@example.com")
	assert.Equal(t, exitFailed, code)
	assert.Equal(t, `{"patient":{"id":"1"}`, out)
	assert.Equal(t, "dispensary: the response is not JSON: write may have been applied\n", stderr)
}

// Notepad saves a file with a byte order mark, which is not valid in JSON.
func TestAPIAcceptsByteOrderMark(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	path := filepath.Join(f.folder, "patient.json")
	require.NoError(t, os.WriteFile(path, []byte("\ufeff"+`{"first_name":"Ada","last_name":"L","email":"ada@example.com"}`+"\r\n"), 0o600))
	out, _ := f.ran("api", "POST", "/clinic/patients", "--input", path)
	assert.Contains(t, out, "ada@example.com")
	require.NoError(t, os.WriteFile(path, []byte("\xff\xfe{\x00}\x00"), 0o600))
	f.rejected("the file is encoded in UTF-16: save it as UTF-8", "api", "POST", "/clinic/patients", "--input", path)
}

func TestAPISendsEscapedPath(t *testing.T) {
	t.Parallel()
	var sent string
	f := newFixture(t)
	f.behind(func(w http.ResponseWriter, r *http.Request) { sent = r.RequestURI; _, _ = io.WriteString(w, "{}") })
	for path, want := range map[string]string{
		"/clinic/patients/a%2Fb": "/api/clinic/patients/a%2Fb", "/clinic/patients/a%252Fb?x=%2F": "/api/clinic/patients/a%252Fb?x=%2F",
	} {
		f.ran("api", "GET", path)
		assert.Equal(t, want, sent)
	}
	f.rejected("Path", "api", "GET", "/clinic/%2e%2e/x")
	f.rejected("Path", "api", "GET", "/clinic/100%")
}

func TestProductionWritesNeedFlag(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.variables = map[string]string{
		"DISPENSARY_US_PRODUCTION_BASE_URL": f.platform.Site().BaseURL, "DISPENSARY_US_PRODUCTION_AUTH_URL": f.platform.Site().AuthURL,
		"DISPENSARY_ACCESS_TOKEN": f.platform.Tokens.Issue(model.User{}).AccessToken, "DISPENSARY_CLINIC_KEY": f.platform.ClinicKey(),
	}
	f.ran("api", "GET", "/clinic")
	f.rejected("us/production contains live data: add --production", "api", "POST", "/clinic/patients", "-f", "first_name=Ada")
	assert.Len(t, f.platform.Journal.Requests(), 1)
	f.ran("api", "POST", "/clinic/patients", "--production", "-f", "first_name=Ada", "-f", "last_name=L", "-f", "email=ada@example.com")
}

// A file, a profile and the default profile in the user's folder contain the same settings.
func TestConfigurationComesFromFileOrProfile(t *testing.T) {
	t.Parallel()
	f := newFixture(t).withToken()
	file, err := json.Marshal(map[string]any{"environments": map[string]any{"us/sandbox": map[string]string{
		"base_url": f.platform.Site().BaseURL, "auth_url": f.platform.Site().AuthURL,
	}}})
	require.NoError(t, err)
	profiles := `{"profiles": {"default": ` + string(file) + `, "broken": {"environments": {"us/sandbox": {"base_ulr": "canary"}}}}}`
	own := filepath.Join(f.folder, "dispensary", "config.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.WriteFile(own, []byte(profiles), 0o600))
	one := filepath.Join(f.folder, "one.json")
	require.NoError(t, os.WriteFile(one, file, 0o600))
	f.variables = map[string]string{"DISPENSARY_ACCESS_TOKEN": f.variables["DISPENSARY_ACCESS_TOKEN"]}
	for _, flags := range [][]string{{}, {"--profile", "default"}, {"--config", own, "--profile", "default"}, {"--config", one}} {
		f.ran(append([]string{"api", "GET", "/clinic"}, flags...)...)
	}
	f.rejected("did you mean default?", "api", "GET", "/clinic", "--profile", "defualt")
	f.rejected("base_ulr does not exist: did you mean base_url?", "api", "GET", "/clinic", "--profile", "broken")
}
