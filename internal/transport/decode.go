package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// decodeOne returns the object of the answer.
func decodeOne[T any](s *callState) (*T, error) {
	if s.call.Operation.Key == "" {
		value := new(T)
		if err := decode(s, value); err != nil {
			return nil, err
		}
		return value, nil
	}
	wrapper := reflect.New(envelopeOf[T](s.call.Operation))
	if err := decode(s, wrapper.Interface()); err != nil {
		return nil, err
	}
	value := wrapper.Elem().Field(0).Interface().(*T)
	if value == nil {
		return nil, undecodable(s, &decodeError{"has no " + s.call.Operation.Key})
	}
	if err := checkSuccess(s); err != nil {
		return nil, err
	}
	return value, nil
}

// decodePage returns the items and the meta of the answer.
func decodePage[T any](s *callState) (*api.Page[T], error) {
	wrapper := reflect.New(envelopeOf[[]T](s.call.Operation))
	if err := decode(s, wrapper.Interface()); err != nil {
		return nil, err
	}
	items := wrapper.Elem().Field(0).Interface().(*[]T)
	meta := wrapper.Elem().Field(1).Interface().(*api.Meta)
	switch {
	case items == nil:
		return nil, undecodable(s, &decodeError{"has no " + s.call.Operation.Key})
	case meta == nil:
		// Without it the list would end early and lose what follows.
		return nil, undecodable(s, &decodeError{"has no meta"})
	}
	return &api.Page[T]{Items: *items, Meta: *meta}, nil
}

// decode reads the answer into a value.
func decode(s *callState, into any) error {
	invalid, err := jsondecode.Unmarshal(s.answer.body.Bytes(), into)
	switch {
	case err != nil:
		return undecodable(s, &decodeError{describeDecode(err)})
	case len(invalid) > 0:
		return undecodable(s, &decodeError{"field " + invalid[0].Field + " does not fit"})
	}
	if report := s.client.config.UnknownFields; report != nil {
		if found := unknownFields(s.answer.body.Bytes(), into); len(found) > 0 {
			report(s.call.Operation.Name, found)
		}
	}
	return nil
}

// envelopes holds the types of answers, by operation and content.
var envelopes sync.Map

type envelopeKey struct {
	operation *operation.Operation
	content   reflect.Type
}

// envelopeOf returns the type of an operation's answer: a struct with the
// content under the response key and, for a list, the meta. The operation
// table holds the key, and decoding into the struct directly avoids a second parse.
func envelopeOf[T any](op *operation.Operation) reflect.Type {
	key := envelopeKey{op, reflect.TypeFor[T]()}
	if known, ok := envelopes.Load(key); ok {
		return known.(reflect.Type)
	}
	fields := []reflect.StructField{{
		Name: "Content", Type: reflect.PointerTo(key.content), Tag: reflect.StructTag(`json:` + strconv.Quote(op.Key)),
	}}
	if op.List {
		fields = append(fields, reflect.StructField{
			Name: "Meta", Type: reflect.TypeFor[*api.Meta](), Tag: `json:"meta"`,
		})
	}
	made, _ := envelopes.LoadOrStore(key, reflect.StructOf(fields))
	return made.(reflect.Type)
}

// decodeError says where an answer could not be decoded, without its values.
type decodeError struct{ text string }

func (e *decodeError) Error() string        { return "undecodable response: " + e.text }
func (e *decodeError) Is(target error) bool { return target == api.ErrBadResponse }

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
