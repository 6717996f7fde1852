package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// walk is the stored form of a [catalogstore.Walk].
type walk struct {
	Generation  int64     `json:"generation"`
	StartedAt   time.Time `json:"started_at"`
	Page        int       `json:"page"`
	PageSize    int       `json:"page_size"`
	Total       int       `json:"total"`
	Requests    int       `json:"requests"`
	Skipped     int       `json:"skipped"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
	Missing     int       `json:"missing"`
	Gone        int       `json:"gone"`
}

func newWalk(w catalogstore.Walk) walk {
	w.StartedAt, w.CompletedAt = exact(w.StartedAt), exact(w.CompletedAt)
	return walk(w)
}

// decodeWalks decodes the newest and the complete walk. An empty text leaves the walk zero.
func decodeWalks(newest, complete []byte, n, c *walk) error {
	for text, w := range map[*[]byte]*walk{&newest: n, &complete: c} {
		if len(*text) == 0 {
			continue
		}
		if err := json.Unmarshal(*text, w); err != nil {
			return err
		}
	}
	return nil
}

// State implements [catalogstore.Store].
func (s *Store) State(ctx context.Context) (catalogstore.State, error) {
	states, err := read(ctx, s, "read the state", scanState, s.sql.state)
	if err == nil && len(states) != 1 {
		err = errState
	}
	if err != nil {
		return catalogstore.State{}, err
	}
	return states[0], nil
}

func scanState(rows *sql.Rows) (state catalogstore.State, err error) {
	var newest, complete []byte
	var present, missing, gone int
	if err := rows.Scan(&state.Revision, &newest, &complete, &state.Requested, &present, &missing, &gone, &state.Detailed); err != nil {
		return state, err
	}
	state.Records = map[catalogstore.Presence]int{catalogstore.PresencePresent: present, catalogstore.PresenceMissing: missing, catalogstore.PresenceGone: gone}
	maps.DeleteFunc(state.Records, func(_ catalogstore.Presence, n int) bool { return n == 0 })
	return state, decodeWalks(newest, complete, (*walk)(&state.Newest), (*walk)(&state.Complete))
}

// Begin implements [catalogstore.Store].
func (s *Store) Begin(ctx context.Context, w catalogstore.Walk) error {
	return s.change(ctx, "begin a walk", func(t *tx) error {
		if w.Generation != t.newest.Generation+1 {
			return catalogstore.ErrSuperseded
		}
		t.newest = newWalk(w)
		return nil
	})
}

// Unlisted implements [catalogstore.Store].
func (s *Store) Unlisted(ctx context.Context, w catalogstore.Walk, limit int) ([]string, error) {
	return read(ctx, s, "read unlisted products", scanText, s.sql.unlisted, string(catalogstore.PresenceMissing), w.Generation, micros(w.StartedAt), limit)
}

// Complete implements [catalogstore.Store].
func (s *Store) Complete(ctx context.Context, w catalogstore.Walk, gone []string) (catalogstore.Walk, error) {
	gone = slices.DeleteFunc(slices.Clone(gone), func(id string) bool { return catalogstore.CheckID(id) != nil })
	var complete catalogstore.Walk
	err := s.change(ctx, "complete a walk", func(t *tx) (err error) {
		if err := t.underWay(w); err != nil {
			return err
		}
		t.newest = newWalk(w)
		// This order, so that no product becomes missing and gone at once.
		if t.newest.Gone, err = t.unlist(s.sql.gone, array(gone), catalogstore.PresenceMissing); err != nil {
			return err
		}
		if t.newest.Missing, err = t.unlist(s.sql.missing, micros(w.StartedAt), catalogstore.PresencePresent); err != nil {
			return err
		}
		t.complete = t.newest
		complete = catalogstore.Walk(t.complete)
		return nil
	})
	if err != nil {
		return catalogstore.Walk{}, err
	}
	return complete, nil
}

// underWay fails with ErrSuperseded unless w is the newest walk and incomplete.
func (t *tx) underWay(w catalogstore.Walk) error {
	if w.Generation < 1 || w.Generation != t.newest.Generation || !t.newest.CompletedAt.IsZero() {
		return catalogstore.ErrSuperseded
	}
	return nil
}

// unlist changes the presence of the records selected by query and condition, with the
// presence before and not seen by the newest walk. It returns their number.
func (t *tx) unlist(query string, condition any, before catalogstore.Presence) (int, error) {
	after, _ := catalogstore.Record{Presence: before}.Unlisted()
	changed, err := t.exec(query, condition, string(after.Presence), t.revision, string(before), t.newest.Generation)
	t.revision += changed
	return int(changed), err
}
