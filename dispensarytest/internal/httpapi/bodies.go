package httpapi

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
)

// largestBody is the maximum size of a body in the journal. It cuts off longer bodies.
const largestBody = 16 << 10

// keepRequestBody records the body of the request. The body can still be read.
func (c *call) keepRequestBody() {
	if !c.api.KeepBodies {
		return
	}
	body, _ := io.ReadAll(io.LimitReader(c.request.Body, MaxBody+1)) // reading the form repeats the error
	c.record.RequestBody = c.shown(body)
	c.request.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), c.request.Body), c.request.Body}
}

// keepAnswer returns a function that records the response body after rewrite.
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

// shown returns the body for the journal. Bodies of the token endpoints contain secrets. If
// such a body is not JSON, they may be anywhere in it.
func (c *call) shown(body []byte) []byte {
	if c.op != nil && c.op.Open && len(body) > 0 {
		body = masked(body)
	}
	return slices.Clone(body[:min(len(body), largestBody)])
}

// secretMembers are the masked members of the token endpoints' bodies.
var secretMembers = []string{"access_token", "client_secret", "code", "refresh_token", "token"}

// masked returns a JSON document without its secrets.
func masked(body []byte) []byte {
	var document any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&document) != nil {
		return []byte("not JSON, so not recorded: it may contain a token")
	}
	if text, isString := document.(string); isString && text != "" {
		document = "***"
	}
	mask(document)
	shown, _ := json.Marshal(document) // it was decoded from JSON
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
