//go:build goexperiment.jsonv2 && go1.27

package transport

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"strings"
)

// leniency makes the newer decoder as forgiving as the older one, on which the
// same tests run: an answer does not become unreadable with a new release of Go.
var leniency = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), json.MatchCaseInsensitiveNames(true),
)

// unmarshal uses the newer decoder, which takes about half the time.
func unmarshal(data []byte, into any) error { return json.Unmarshal(data, into, leniency) }

// describeDecode keeps the position and the field of a decoding error. The
// decoder's own text may quote a value from the answer.
func describeDecode(err error) string {
	var syntax *jsontext.SyntacticError
	var mismatch *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("malformed JSON at byte %d", syntax.ByteOffset)
	case errors.As(err, &mismatch) && mismatch.Err == nil:
		field := strings.ReplaceAll(strings.TrimPrefix(string(mismatch.JSONPointer), "/"), "/", ".")
		return fmt.Sprintf("field %s: a %s does not fit %s", field, mismatch.JSONKind, mismatch.GoType)
	}
	return "a field has an unknown form"
}
