package catalogsync

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/dispensary-go/dispensary/api"
)

// answer is what Handler writes: hits, or an error.
type answer struct {
	Hits       []Hit        `json:"hits"`
	AgeSeconds int64        `json:"age_seconds"`
	Error      *answerError `json:"error,omitempty"`
}

type answerError struct {
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
}

// Handler answers GET with the products for what a person has typed so far, for a search
// box. The query has q, and may have limit, brand_id, ingredient_ids[] and allergen_ids[]
// as [SearchOptions] does. The answer is JSON:
//
//	200 {"hits":[{"product_id":"…","name":"…", … as Hit}],"age_seconds":5}
//	400 {"hits":[],"age_seconds":0,"error":{"field":"q","reason":"is longer than 200 bytes"}}
//	503 the same without a field, before there is an index
//
// An empty q without another condition finds nothing. It is for users who may see what the
// client of this searcher sees: put it behind your own sign-in.
func (s *Searcher) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		status, a := s.answer(r.URL.RawQuery)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(a) // fails only when the browser went away
	})
}

func (s *Searcher) answer(rawQuery string) (status int, a answer) {
	o, err := parseQuery(rawQuery)
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
	return http.StatusOK, answer{Hits: result.Hits, AgeSeconds: int64(result.Age.Seconds())}
}

func parseQuery(rawQuery string) (SearchOptions, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return SearchOptions{}, &api.ArgumentError{Field: "query", Reason: "is not encoded as a query is"}
	}
	o := SearchOptions{Query: query.Get("q"), BrandID: query.Get("brand_id"), IngredientIDs: query["ingredient_ids[]"], AllergenIDs: query["allergen_ids[]"]}
	if limit := query.Get("limit"); limit != "" {
		if o.Limit, err = strconv.Atoi(limit); err != nil {
			return SearchOptions{}, &api.ArgumentError{Field: "limit", Reason: "is no number"}
		}
	}
	return o, nil
}
