package catalogsync

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/dispensary-go/dispensary/api"
)

// HandlerConfig configures [Searcher.Handler]. The zero value is valid.
type HandlerConfig struct {
	// Permitted returns the brands that the clinic of the request's user may order, for
	// example from a [BrandCache]. Nil shows the products of all brands. It is called for each
	// request, so it should be quick.
	Permitted func(*http.Request) *PermittedBrands
}

// answer is the response body: hits or an error.
type answer struct {
	Hits       []Hit            `json:"hits"`
	AgeSeconds int64            `json:"age_seconds"`
	Permitted  *answerPermitted `json:"permitted,omitempty"`
	Error      *answerError     `json:"error,omitempty"`
}

type answerPermitted struct {
	AgeSeconds int64 `json:"age_seconds"`
}

type answerError struct {
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
}

// Handler serves GET requests of a search box. It returns the products for the text that the
// user has typed so far. The query has q, and optionally limit, brand_id, ingredient_ids[] and
// allergen_ids[], with the meaning and limits of [SearchOptions]. The response is JSON:
//
//	200 {"hits":[{"product_id":"…","name":"…", … as Hit}],"age_seconds":5}
//	400 {"hits":[],"age_seconds":0,"error":{"field":"q","reason":"is longer than 200 bytes"}}
//	503 the same without a field, before there is an index
//
// If the hits are limited to permitted brands, the response also has
// "permitted":{"age_seconds":60}, the time since these brands were read.
//
// An empty q without another condition finds nothing. The handler does not authenticate
// requests. Put it behind your own sign-in, because its users see everything that the client
// of the syncer sees.
func (s *Searcher) Handler(c HandlerConfig) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		var permitted *PermittedBrands
		if c.Permitted != nil {
			permitted = c.Permitted(r)
		}
		status, a := s.answer(r.URL.RawQuery, permitted)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(a) // fails only if the browser has disconnected
	})
}

func (s *Searcher) answer(rawQuery string, permitted *PermittedBrands) (status int, a answer) {
	o, err := parseQuery(rawQuery)
	o.Permitted = permitted
	var result Result
	if err == nil {
		result, err = s.Search(o)
	}
	var wrong *api.ArgumentError
	switch {
	case errors.As(err, &wrong):
		field := wrong.Field
		if field == "query" {
			field = "q"
		}
		return http.StatusBadRequest, answer{Hits: []Hit{}, Error: &answerError{field, wrong.Reason}}
	case err != nil: // ErrNotLoaded
		return http.StatusServiceUnavailable, answer{Hits: []Hit{}, Error: &answerError{Reason: "the catalog is not loaded yet"}}
	}
	a = answer{Hits: result.Hits, AgeSeconds: int64(result.Age.Seconds())}
	if result.PermittedOnly {
		a.Permitted = &answerPermitted{int64(result.PermittedAge.Seconds())}
	}
	return http.StatusOK, a
}

func parseQuery(rawQuery string) (SearchOptions, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return SearchOptions{}, &api.ArgumentError{Field: "query", Reason: "is not a valid query string"}
	}
	o := SearchOptions{Query: query.Get("q"), BrandID: query.Get("brand_id"), IngredientIDs: query["ingredient_ids[]"], AllergenIDs: query["allergen_ids[]"]}
	if limit := query.Get("limit"); limit != "" {
		if o.Limit, err = strconv.Atoi(limit); err != nil {
			return SearchOptions{}, &api.ArgumentError{Field: "limit", Reason: "must be a number"}
		}
	}
	return o, nil
}
