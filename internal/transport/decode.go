package transport

import (
	"context"
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

// One sends a call and returns the object of the answer.
func One[T any](ctx context.Context, c *Client, call Call) (*T, error) {
	x, err := c.send(ctx, &call)
	if err != nil {
		return nil, err
	}
	defer x.release()
	if call.Operation.Key == "" {
		value := new(T)
		if err := x.decode(value); err != nil {
			return nil, err
		}
		return value, nil
	}
	wrapper := reflect.New(envelopeOf[T](call.Operation))
	if err := x.decode(wrapper.Interface()); err != nil {
		return nil, err
	}
	value := wrapper.Elem().Field(0).Interface().(*T)
	if value == nil {
		return nil, x.undecodable(&decodeError{"has no " + call.Operation.Key})
	}
	return value, nil
}

// Do sends a call and ignores the content of the answer.
func Do(ctx context.Context, c *Client, call Call) error {
	x, err := c.send(ctx, &call)
	if err == nil {
		x.release()
	}
	return err
}

// page sends a call and returns the items and the meta of the answer.
func page[T any](ctx context.Context, c *Client, call *Call) (*api.Page[T], error) {
	x, err := c.send(ctx, call)
	if err != nil {
		return nil, err
	}
	defer x.release()
	wrapper := reflect.New(envelopeOf[[]T](call.Operation))
	if err := x.decode(wrapper.Interface()); err != nil {
		return nil, err
	}
	items := wrapper.Elem().Field(0).Interface().(*[]T)
	meta := wrapper.Elem().Field(1).Interface().(*api.Meta)
	switch {
	case items == nil:
		return nil, x.undecodable(&decodeError{"has no " + call.Operation.Key})
	case meta == nil:
		// Without it a walk would end early and lose what follows.
		return nil, x.undecodable(&decodeError{"has no meta"})
	}
	return &api.Page[T]{Items: *items, Meta: *meta}, nil
}

// envelopes holds the types of answers, by operation and content.
var envelopes sync.Map

type envelopeKey struct {
	operation *operation.Operation
	content   reflect.Type
}

// envelopeOf returns the type of an operation's answer: a struct with the
// content under the response key and, for a list, the meta. Made from the
// operation table, it keeps the key in one place; decoded into directly, it
// spares the second parse of a map of raw values.
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

// decode reads the answer into a value.
func (x *exchange) decode(into any) error {
	if err := jsondecode.Unmarshal(x.body.Bytes(), into); err != nil {
		return x.undecodable(&decodeError{describeDecode(err)})
	}
	x.reportUnknown(into)
	return nil
}

// decodeError tells where an answer could not be decoded, without its values.
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
