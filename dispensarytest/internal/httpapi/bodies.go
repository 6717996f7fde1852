package httpapi

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
)

// largestBody is how much of a body the journal has at most.
const largestBody = 16 << 10

// keepRequestBody records the body of the request, which can be read as before.
func (c *call) keepRequestBody() {
	if !c.api.KeepBodies {
		return
	}
	body, _ := io.ReadAll(io.LimitReader(c.request.Body, MaxBody+1)) // an error comes again when the form is read
	c.record.RequestBody = c.shown(body)
	c.request.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), c.request.Body), c.request.Body}
}

// keepAnswer records what is answered, after it was rewritten.
func (c *call) keepAnswer(rewrite func([]byte) []byte) func([]byte) []byte {
	if !c.api.KeepBodies {
		return rewrite
	}
	return func(body []byte) []byte {
		if rewrite != nil {
			body = rewrite(body)
		}
		c.record.ResponseBody = c.shown(body)
		return body
	}
}

// shown is what the journal has of a body. The token endpoints take and give what must
// not be shown; a body of theirs that is no JSON may hold it anywhere.
func (c *call) shown(body []byte) []byte {
	if c.op != nil && c.op.Open && len(body) > 0 {
		body = masked(body)
	}
	return slices.Clone(body[:min(len(body), largestBody)])
}

// secretMembers are the members of the token endpoints' bodies that are masked.
var secretMembers = []string{"access_token", "client_secret", "code", "refresh_token", "token"}

// masked is a JSON document without its secrets.
func masked(body []byte) []byte {
	var document any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&document) != nil {
		return []byte("not JSON, and not kept: it may hold a token")
	}
	if text, isString := document.(string); isString && text != "" {
		document = "***"
	}
	mask(document)
	shown, _ := json.Marshal(document) // it was JSON
	return shown
}

func mask(document any) {
	switch value := document.(type) {
	case map[string]any:
		for name, member := range value {
			if slices.Contains(secretMembers, name) {
				value[name] = "***"
			} else {
				mask(member)
			}
		}
	case []any:
		for _, element := range value {
			mask(element)
		}
	}
}
