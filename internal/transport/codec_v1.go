//go:build !goexperiment.jsonv2 || !go1.27

package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

func unmarshal(data []byte, into any) error { return json.Unmarshal(data, into) }

// describeDecode keeps the position and the field of a decoding error. The
// decoder's own text may quote a number from the answer.
func describeDecode(err error) string {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("malformed JSON at byte %d", syntax.Offset)
	case errors.As(err, &mismatch):
		kind, _, _ := strings.Cut(mismatch.Value, " ")
		return fmt.Sprintf("field %s: a %s does not fit %s", mismatch.Field, kind, mismatch.Type)
	}
	return "a field has an unknown form"
}
