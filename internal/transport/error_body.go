package transport

import (
	"encoding/json"
	"github.com/dispensary-go/dispensary/internal/apierror/detail"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// oauthCodes are the error codes of RFC 6749, sections 4.1.2.1 and 5.2. Only these codes
// appear in the text of an error, because any other text may contain anything.
var oauthCodes = []string{
	"access_denied", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "server_error",
	"temporarily_unavailable", "unauthorized_client", "unsupported_grant_type", "unsupported_response_type",
}

// parseErrorBody reads all known forms of an error body:
//
//	{"error": ["Last name can't be blank"]}
//	{"error": "The access token expired"}
//	{"status": 404, "error": "Not Found"}
//	{"error": "invalid_grant", "error_description": "…"}
//	{"errors": [{"code": "…", "message": "…"}]}
//	{"errors": ["…"]}, {"errors": {"email": ["…"]}}
//
// It returns no message for any other body, such as the HTML of a proxy. The field of a
// message is the request field named by its key, or by the beginning of its text.
func parseErrorBody(body []byte, fields requestFields) (code string, messages []detail.Message) {
	var answer struct {
		Error       json.RawMessage `json:"error"`
		Description json.RawMessage `json:"error_description"`
		Message     json.RawMessage `json:"message"`
		Errors      json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return "", nil
	}
	r := messageReader{fields: fields}
	var word string
	if json.Unmarshal(answer.Error, &word) == nil && slices.Contains(oauthCodes, word) {
		code = word
	} else {
		r.read("", answer.Error, 0)
	}
	for _, raw := range []json.RawMessage{answer.Description, answer.Message, answer.Errors} {
		r.read("", raw, 0)
	}
	return code, r.messages
}

// maxMessageDepth limits the nesting of a hostile body.
const maxMessageDepth = 4

// messageReader collects the texts of an error body at any nesting.
type messageReader struct {
	fields   requestFields
	messages []detail.Message
}

// read collects the texts of a value. path is the position of the value in the body, with the
// names of the body. It is empty at the top.
func (r *messageReader) read(path string, raw json.RawMessage, depth int) {
	var text string
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case len(raw) == 0 || depth > maxMessageDepth:
	case json.Unmarshal(raw, &text) == nil:
		r.add(path, text)
	case json.Unmarshal(raw, &list) == nil:
		for i, item := range list {
			r.read(itemPath(path, i, item), item, depth+1)
		}
	case json.Unmarshal(raw, &object) == nil:
		if message, ok := object["message"]; ok {
			r.read(path, message, depth+1)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			r.read(strings.TrimPrefix(path+"."+key, "."), object[key], depth+1)
		}
	}
}

// itemPath returns the path of a list item. A text applies to the whole list, and a list at
// the top contains messages.
func itemPath(path string, i int, item json.RawMessage) string {
	if path == "" || len(item) == 0 || item[0] != '{' {
		return path
	}
	return path + "[" + strconv.Itoa(i) + "]"
}

func (r *messageReader) add(path, text string) {
	switch field := r.fields.named(path); {
	case text == "":
	case path == "":
		r.messages = append(r.messages, r.fields.place(text)...)
	case field == "":
		r.messages = append(r.messages, detail.Message{Text: path + " " + text})
	default:
		if first, _ := utf8.DecodeRuneInString(text); unicode.IsLower(first) {
			text = detail.Label(field) + " " + text // the text continues a sentence that begins with the key
		}
		r.messages = append(r.messages, detail.Message{Field: field, Text: text})
	}
}
