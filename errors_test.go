package dispensary_test

import (
	"errors"
	"fmt"
	"go/ast"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/treatmentplans"
	"github.com/dispensary-go/dispensary/webhook"
)

// nilErrors are the exported error types as nil pointers. A function that returns such a pointer
// instead of error causes an error that is not nil.
var nilErrors = map[string]error{
	"api.Error":                       (*api.Error)(nil),
	"api.AccountChangedError":         (*api.AccountChangedError)(nil),
	"api.ArgumentError":               (*api.ArgumentError)(nil),
	"api.ArgumentErrors":              api.ArgumentErrors(nil),
	"api.EnsureError":                 (*api.EnsureError)(nil),
	"api.IncompleteListError":         (*api.IncompleteListError)(nil),
	"api.SchemaError":                 (*api.SchemaError)(nil),
	"api.ScopeError":                  (*api.ScopeError)(nil),
	"events.DataError":                (*events.DataError)(nil),
	"oauth.CallbackError":             (*oauth.CallbackError)(nil),
	"oauth.ConfigError":               (*oauth.ConfigError)(nil),
	"accounts.ClinicError":            (*accounts.ClinicError)(nil),
	"tokens.ReauthorizeError":         (*tokens.ReauthorizeError)(nil),
	"tokens.StoreError":               (*tokens.StoreError)(nil),
	"treatmentplans.UnavailableError": (*treatmentplans.UnavailableError)(nil),
}

func TestNilErrorsCauseNoPanic(t *testing.T) {
	t.Parallel()
	for name, err := range nilErrors {
		empty := err // a program's test creates an error without its fields
		if of := reflect.TypeOf(err); of.Kind() == reflect.Pointer {
			empty = reflect.New(of.Elem()).Interface().(error)
		}
		for _, err := range []error{err, empty, fmt.Errorf("own: %w", err), errors.Join(errors.New("own"), err)} {
			require.NotPanics(t, func() {
				require.NotNil(t, api.ProblemOf(err), name)
				_ = err.Error()
				for _, sentinel := range []error{api.ErrNotFound, api.ErrNotSent, api.ErrReauthorize, api.ErrUntrusted, events.ErrNoData} {
					_ = errors.Is(err, sentinel)
				}
				attempt := webhook.Attempt{Err: err}
				_, _ = attempt.Reason(), attempt.RequestID()
				_ = webhook.IsPermanent(err)
				_ = slog.AnyValue(err).Resolve()
			}, name)
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s", err, err, err, err), "PANIC", name)
		}
	}
}

func TestNilErrorsAreComplete(t *testing.T) {
	t.Parallel()
	for _, folder := range packages(t, true) {
		if strings.HasPrefix(folder, "examples") || strings.HasPrefix(folder, "cmd") || strings.Contains("/"+folder+"/", "/internal/") {
			continue
		}
		p := packageDoc(t, folder)
		for _, kind := range p.Types {
			for _, method := range kind.Methods {
				if method.Name == "Error" && method.Level == 0 && ast.IsExported(kind.Name) {
					assert.Contains(t, nilErrors, p.Name+"."+kind.Name)
				}
			}
		}
	}
}
