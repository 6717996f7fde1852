// Package store implements the world of one platform: its rows, the queries on them, and the
// generator of a world from a seed.
//
// Locks must be acquired in this order:
//
//  1. the run token of clock.Clock, while a task of the clock runs
//  2. [Store], the lock of the world
//  3. tokens.Store
//  4. webhooks.Sender
//  5. faults.Set
//  6. clock.Clock
//  7. clock.Notifier
//
// An action holds the second lock while it passes its event to the sender, so the sender must
// never acquire it. Only the first lock may be held during an HTTP request.
package store

import (
	"bytes"
	"fmt"
	"net/mail"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Store contains the world of one platform and its lock.
type Store struct {
	sync.RWMutex
	World *World
}

// Look calls at with the world, locked for reading.
func (s *Store) Look(at func(w *World)) {
	s.RLock()
	defer s.RUnlock()
	at(s.World)
}

// Freeze returns the current world. Later changes apply to a copy. The caller holds the lock.
func (s *Store) Freeze() *World {
	frozen := s.World
	s.World = frozen.Clone()
	return frozen
}

// Users returns the accounts that can sign in.
func (s *Store) Users() []model.User {
	s.RLock()
	defer s.RUnlock()
	return table.Map(s.World.Users.Rows, func(u *model.User) model.User { return *u })
}

// User returns the platform's record of a user, by id or e-mail address. The zero User is the
// first practitioner. User panics if the user does not exist.
func (s *Store) User(like model.User) model.User {
	for _, known := range s.Users() {
		if like == (model.User{}) || like.ID == known.ID || like.ID == "" && like.Email == known.Email {
			return known
		}
	}
	panic(fmt.Sprintf("dispensarytest: there is no user %q; see Server.Users", like.Email))
}

// ClinicName returns the name of a clinic, which must exist.
func (s *Store) ClinicName(id string) string {
	s.RLock()
	defer s.RUnlock()
	return s.World.clinic(id).Name
}

// Detached copies the slices that a row refers to. So a caller cannot change the platform, or
// a world that it shares with others, through the returned row.
func Detached[T any](row T) T {
	switch row := any(&row).(type) {
	case *model.Event:
		row.Data = bytes.Clone(row.Data)
	case *model.Order:
		row.PlanIDs, row.Lines = slices.Clone(row.PlanIDs), slices.Clone(row.Lines)
	case *Brand:
		row.ClinicIDs = slices.Clone(row.ClinicIDs)
	case *model.Plan:
		row.Recommendations = CloneRecommendations(row.Recommendations)
	case *model.Protocol:
		row.Recommendations = slices.Clone(row.Recommendations)
	case *model.Product:
		for _, ids := range []*[]string{&row.VariantIDs, &row.AllergenIDs, &row.IngredientIDs, &row.CertificationIDs, &row.CategoryIDs} {
			*ids = slices.Clone(*ids)
		}
	}
	return row
}

func CloneRecommendations(from []model.Recommendation) []model.Recommendation {
	lines := slices.Clone(from)
	for i := range lines {
		if lines[i].Dosage != nil {
			lines[i].Dosage = new(*lines[i].Dosage)
		}
	}
	return lines
}

// ActionError is the error of a failed action of the platform's users.
type ActionError struct {
	Action string // the action, such as "PlaceOrder"
	Kind   error  // model.ErrNotFound, model.ErrValidation or model.ErrState
	Detail string
}

// Error returns the action, the kind and the detail.
func (e *ActionError) Error() string {
	return fmt.Sprintf("dispensarytest: %s: %s: %s", e.Action, e.Kind, e.Detail)
}

// Unwrap returns the kind, for errors.Is.
func (e *ActionError) Unwrap() error { return e.Kind }

func Unknown(action, kind, id string) error {
	return &ActionError{Action: action, Kind: model.ErrNotFound, Detail: fmt.Sprintf("no %s has the id %q", kind, id)}
}

func Rejected(action string, kind error, format string, args ...any) error {
	return &ActionError{Action: action, Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// Days is a date filter. A plain day comes from the API. The forms "<day", ">day" and
// "day..day" are an assumption, except ">", which one of the API's examples shows.
type Days struct {
	From, To string // inclusive, or "" if open
	Set      bool
}

// Holds compares calendar days in the time zone of t.
func (d Days) Holds(t time.Time) bool {
	if !d.Set {
		return true
	}
	day := t.Format(time.DateOnly)
	return d.From <= day && (d.To == "" || day <= d.To)
}

func ValidDay(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// DayAfter returns the day n days later. If s is not a day, it returns "invalid", which the
// caller rejects.
func DayAfter(s string, n int) string {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return "invalid"
	}
	return t.AddDate(0, 0, n).Format(time.DateOnly)
}

func ValidEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}
