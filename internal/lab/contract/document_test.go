package contract_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/openapi"
)

// eachOperation visits all operations and webhooks.
func eachOperation(doc *openapi3.T, visit func(op *openapi3.Operation, webhook bool)) {
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			visit(op, false)
		}
	}
	for _, item := range doc.Webhooks {
		visit(item.Post, true)
	}
}

var statusKey = regexp.MustCompile(`^([1-5][0-9][0-9]|[1-5]XX|default)$`)

// The validator of kin-openapi does not check these rules.
func TestDocumentedResponsesAreComplete(t *testing.T) {
	t.Parallel()
	s := start(t)
	eachOperation(s.check.Document(), func(op *openapi3.Operation, webhook bool) {
		statuses := slices.Collect(maps.Keys(op.Responses.Map()))
		for _, status := range statuses {
			assert.Regexp(t, statusKey, status, op.OperationID)
			headers := op.Responses.Value(status).Value.Headers
			assert.Equal(t, !webhook, headers["X-Request-Id"] != nil, "%s %s: X-Request-Id", op.OperationID, status)
		}
		if webhook {
			assert.Subset(t, statuses, []string{"200", "201", "410", "default"}, op.OperationID)
			return
		}
		assert.Contains(t, statuses, "5XX", op.OperationID)
		if s.rows[op.OperationID].Scopes != "" {
			assert.Subset(t, statuses, []string{"400", "401", "403", "429"}, op.OperationID)
		}
		if strings.Contains(s.rows[op.OperationID].Route, "{") {
			assert.Contains(t, statuses, "404", op.OperationID)
		}
		if s.rows[op.OperationID].Method != http.MethodGet {
			assert.Contains(t, statuses, "413", op.OperationID)
		}
	})
}

func TestDocumentedOperationsAreComplete(t *testing.T) {
	t.Parallel()
	s := start(t)
	eachOperation(s.check.Document(), func(op *openapi3.Operation, webhook bool) {
		assert.NotEmpty(t, op.Summary, op.OperationID)
		assert.NotEmpty(t, op.Description, op.OperationID)
		assert.Len(t, op.Tags, 1, op.OperationID)
		var parameters []string
		for _, ref := range op.Parameters {
			parameters = append(parameters, ref.Value.Name)
			assert.NotEmpty(t, ref.Value.Description, "%s: %s", op.OperationID, ref.Value.Name)
		}
		if s.rows[op.OperationID].List {
			assert.Subset(t, parameters, []string{"page[number]", "page[size]"}, op.OperationID)
		}
		assert.Equal(t, webhook, slices.Contains(parameters, "SVC-Signature"), op.OperationID)
	})
}

// Every component is used, every assumption has a reason, and all URLs use reserved domains or
// the domain of the project.
func TestDocumentedPartsAreUsed(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	encoded, err := json.Marshal(check.Document())
	require.NoError(t, err)
	var tree any
	require.NoError(t, json.Unmarshal(encoded, &tree))
	text := string(encoded)
	for section, parts := range tree.(map[string]any)["components"].(map[string]any) {
		for name := range parts.(map[string]any) {
			if section != "securitySchemes" {
				assert.True(t, strings.Contains(text, `"#/components/`+section+"/"+name+`"`), "%s %s is not used", section, name)
			}
		}
	}
	assumptions := 0
	visit(tree, func(key string, value any) {
		switch key {
		case "x-assumption", "x-oddity":
			assumptions++
			why, _ := value.(string)
			assert.Greater(t, len(why), 20, "%q does not state a reason", why)
		case "x-scope-assumed":
			assert.Equal(t, true, value)
		case "nullable":
			assert.Fail(t, "nullable is OpenAPI 3.0")
		}
	})
	assert.Greater(t, assumptions, 50)
	for _, tag := range check.Document().Tags {
		assert.NotEmpty(t, tag.Description, "the tag %s", tag.Name)
	}
	for _, address := range regexp.MustCompile(`https?://[^/"\\\s]+`).FindAllString(string(openapi.Document()), -1) {
		assert.Regexp(t, `^https://(([a-z]+\.)?dispensary\.example|github\.com)$`, address)
	}
}

// If an operation needs the scope of the plan history for some plans, its description names it.
func TestOperationsNameHistoryScope(t *testing.T) {
	t.Parallel()
	s := start(t)
	plan, _, err := s.Platform.Plans.Create(s.Patient, model.PlanCreate{})
	require.NoError(t, err)
	narrow := s.Platform.Tokens.Issue(model.User{}, "clinic:read", "clinic:write", "patients:read").AccessToken
	var needs []string
	for path, item := range loaded(t).Document().Paths.Map() {
		if !strings.Contains(path, "treatment_plans/{") {
			continue
		}
		for method, op := range item.Operations() {
			r := request{path: []string{plan.ID}, token: narrow}
			if method != http.MethodGet {
				r.body = map[string]any{}
			}
			if s.send(op.OperationID, r).Response.StatusCode == http.StatusForbidden {
				needs = append(needs, op.OperationID)
				assert.Contains(t, op.Description, "patients:treatment_plan_history", op.OperationID)
			}
		}
	}
	assert.Len(t, needs, 6)
}

func visit(node any, see func(key string, value any)) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			see(key, value)
			visit(value, see)
		}
	case []any:
		for _, value := range node {
			visit(value, see)
		}
	}
}

// The document allows these observed error bodies. The fake platform does not send all of them.
func TestErrorBodiesFollowContract(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	for _, c := range []struct {
		status int
		header []string
		body   string
	}{
		{401, nil, `{"error":"The access token expired"}`},
		{404, nil, `{"status":404,"error":"Not Found"}`},
		{422, nil, `{"error":["Last name can't be blank"]}`},
		{429, nil, `{"error":"Too many requests"}`},
		{429, []string{"Retry-After", "120"}, `{"errors":[{"code":"1015","message":"Slow down"}]}`},
		{429, []string{"Retry-After", "Mon, 02 Mar 2026 09:00:00 GMT"}, `{"status":429,"error":"Slow down"}`},
		{500, nil, `{"status":500,"error":"Internal Server Error"}`},
		{503, nil, `{"error":"invalid_grant","error_description":"x"}`},
		{502, []string{"Content-Type", "text/html", "X-Request-Id", ""}, `<h1>Bad Gateway</h1>`},
	} {
		assert.Empty(t, check.CheckResponse("patients.update", reply(c.status, c.header...), []byte(c.body)), "%d %s", c.status, c.body)
	}
	assert.Empty(t, check.CheckResponse("oauth.token", reply(http.StatusBadRequest), []byte(`{"error":"invalid_grant","error_description":"The grant is invalid."}`)))
}
