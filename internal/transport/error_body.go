package transport

import (
	"encoding/json"
	"maps"
	"slices"
)

// oauthCodes are the error codes of RFC 6749, sections 4.1.2.1 and 5.2. Only
// they appear in an error's text, because any other text may hold anything.
var oauthCodes = []string{
	"access_denied", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "server_error",
	"temporarily_unavailable", "unauthorized_client", "unsupported_grant_type", "unsupported_response_type",
}

// parseErrorBody reads every form of an error body that has been seen:
//
//	{"error": ["Last name can't be blank"]}
//	{"error": "The access token expired"}
//	{"status": 404, "error": "Not Found"}
//	{"error": "invalid_grant", "error_description": "…"}
//	{"errors": [{"code": "…", "message": "…"}]}
//	{"errors": ["…"]}, {"errors": {"email": ["…"]}}
//
// Anything else, such as the HTML of a proxy, yields no message.
func parseErrorBody(body []byte) (code string, messages []string) {
	var answer struct {
		Error       json.RawMessage `json:"error"`
		Description json.RawMessage `json:"error_description"`
		Message     json.RawMessage `json:"message"`
		Errors      json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return "", nil
	}
	var word string
	if json.Unmarshal(answer.Error, &word) == nil && slices.Contains(oauthCodes, word) {
		code = word
	} else {
		messages = appendMessages(messages, answer.Error, 0)
	}
	for _, raw := range []json.RawMessage{answer.Description, answer.Message, answer.Errors} {
		messages = appendMessages(messages, raw, 0)
	}
	return code, messages
}

// writtenByPlatform distinguishes an answer of the platform, which writes JSON objects,
// from the HTML page or the empty body of a proxy in front of it.
func writtenByPlatform(body []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(body, &object) == nil && object != nil
}

// maxMessageDepth keeps a hostile body from nesting without end.
const maxMessageDepth = 4

// appendMessages collects the texts of a value, however it is nested.
func appendMessages(messages []string, raw json.RawMessage, depth int) []string {
	var text string
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case len(raw) == 0 || depth > maxMessageDepth:
	case json.Unmarshal(raw, &text) == nil:
		if text != "" {
			messages = append(messages, text)
		}
	case json.Unmarshal(raw, &list) == nil:
		for _, item := range list {
			messages = appendMessages(messages, item, depth+1)
		}
	case json.Unmarshal(raw, &object) == nil:
		if message, ok := object["message"]; ok {
			return appendMessages(messages, message, depth+1)
		}
		for _, field := range slices.Sorted(maps.Keys(object)) {
			for _, message := range appendMessages(nil, object[field], depth+1) {
				messages = append(messages, field+" "+message)
			}
		}
	}
	return messages
}
