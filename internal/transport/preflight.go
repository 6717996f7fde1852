package transport

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// preflight compares what the token was granted with what the operation needs,
// and returns the token to send. Where the API states the scope and the token
// lacks it, the platform need not be asked: the error names the scope, which an
// answer of 403 may not. Where the scope is assumed the call goes on, for the
// assumption may be wrong, and the log says so once for each operation. A token
// whose scopes are not known is let pass.
func (x *exchange) preflight(ctx context.Context, source api.TokenSource, token api.AccessToken) (api.AccessToken, error) {
	op := x.call.Operation
	missing := missingScope(op, token)
	if missing == "" {
		return token, nil
	}
	if reloader, ok := source.(api.TokenReloader); ok && op.ScopeStated {
		fresh, err := reloader.Reload(ctx)
		if err != nil {
			return token, &ownError{cause: err}
		}
		if token, missing = fresh, missingScope(op, fresh); missing == "" {
			return token, nil
		}
	}
	x.lacks = &api.ScopeError{Operation: op.Name, Scope: missing, Assumed: !op.ScopeStated}
	if op.ScopeStated {
		return token, &ownError{cause: x.lacks}
	}
	x.warn(ctx)
	return token, nil
}

// missingScope returns the first scope that the operation needs and the token
// lacks, or "". A token that has no scope of those that are known is not judged: the
// form in which the platform writes them is not stated.
func missingScope(op *operation.Operation, token api.AccessToken) string {
	if op.ScopeVaries || token.Scope == "" {
		return ""
	}
	for scope := range strings.FieldsSeq(op.Scope) {
		if !token.HasScope(scope) && slices.ContainsFunc(api.Scopes(), token.HasScope) {
			return scope
		}
	}
	return ""
}

// warn tells once for each operation that its assumed scope is missing.
func (x *exchange) warn(ctx context.Context) {
	logger := x.client.config.Logger
	if logger == nil {
		return
	}
	if _, before := x.client.warned.LoadOrStore(x.lacks.Operation, true); before {
		return
	}
	logger.LogAttrs(ctx, slog.LevelWarn, "dispensary: a token lacks the scope that an operation is assumed to need; calling all the same",
		slog.String("operation", x.lacks.Operation), slog.String("scope", x.lacks.Scope),
		slog.String("environment", x.client.config.Site.Environment.String()))
}
