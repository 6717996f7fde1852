package oauth

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// scopesProblem finds what cannot be a scope, and what is nearly one that is known. A
// scope that resembles none of them passes: the platform may have added it.
func scopesProblem(scopes []string) string {
	for i, scope := range scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' }) {
			return "must hold one scope an item, without space"
		}
		if meant := misspelt(scope); meant != "" {
			return "seems to hold a misspelt " + strconv.Quote(meant) + " at index " + strconv.Itoa(i)
		}
	}
	return ""
}

// maxScopeEdits is the largest edit distance at which an unknown scope counts as a
// misspelling of a known one. Known scopes differ by twice as much.
const maxScopeEdits = 2

// misspelt returns the known scope that is meant, or nothing.
func misspelt(scope string) string {
	known := api.Scopes()
	if slices.Contains(known, scope) {
		return ""
	}
	for _, meant := range known {
		if strings.EqualFold(scope, meant) || closestmatch.Distance(scope, meant) <= maxScopeEdits {
			return meant
		}
	}
	return ""
}
