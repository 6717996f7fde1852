package inboxkit

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Table describes the events of an engine to [Table.Select] and [Table.Count]. Its texts are
// SQL.
type Table struct {
	From string // the table, with an alias
	Seq  string // column of [engine.Position].Seq

	// At maps a state to the column of [engine.Position].At. Ranges maps a state to conditions
	// on rows. An index sorts the rows of each range by At and Seq.
	At     map[engine.State]string
	Ranges map[engine.State][]string

	// Type, ClinicID, Reason and ReceivedAt are columns of an event.
	Type, ClinicID, Reason, ReceivedAt string

	// Keys, EventID and ID are the conditions of these fields of [engine.Filter], with {} for the
	// value. If a filter has Keys or EventID, its ranges have the prefix ByKeys, which can prevent
	// the database from using their index.
	Keys, ByKeys, EventID, ID string

	// Dead describes dead letters if they have a table of their own. It needs all fields
	// above.
	Dead *Table

	// Groups is a table with a row for each [Group] of dead letters. Its columns are Type,
	// ClinicID, Reason, events, oldest, first and last. If it is empty, Count reads all dead
	// letters.
	Groups string

	// Limits reports whether Count can group a limited number of events efficiently. If it is
	// false, Count first checks whether there are more events.
	Limits bool

	// Value converts the keys, texts, times and numbers of conditions for the driver. The event ID
	// of a filter is an [EventID].
	Value func(any) any

	// Parameter is the prefix of a numbered parameter.
	Parameter string
}

// EventID is the value of the condition [Table].EventID.
type EventID string

// Select returns a query for state, columns, at and seq of a page of the events that match f. It
// sorts them if the page has a limit. The query is a union of one query per range. {reason} in
// columns stands for the column Reason.
func (t Table) Select(columns string, f engine.Filter, page engine.Page) (query string, args []any) {
	order := ""
	if page.Limit > 0 {
		order = " ORDER BY at, seq LIMIT " + strconv.Itoa(page.Limit)
	}
	if page.Descending {
		order = strings.Replace(order, "at, seq", "at DESC, seq DESC", 1)
	}
	union, args := t.union(f, page)
	return union("SELECT * FROM (SELECT '{state}' AS state, "+columns+", {at} AS at, {seq} AS seq FROM {from} WHERE {where}"+order+") part", "") + order, args
}

// Count implements Count of an engine. read runs a query and returns its rows, one [Group] per
// row, field by field.
func (t Table) Count(f engine.Filter, most int, read func(query string, args []any) ([]Group, error)) (c engine.Counts, err error) {
	many := false // events, so a full pass could take long
	states := statesOf(f)
	if t.grouped(f) {
		states = slices.DeleteFunc(states, func(state engine.State) bool { return state == engine.StateDead })
	}
	if most > 0 && !t.Limits && len(states) > 0 {
		union, args := t.union(engine.Filter{States: states}, engine.Page{})
		more, err := read(lone+union("SELECT {at} AS at, {seq} AS seq FROM {from} WHERE {where}", "")+") x LIMIT 1 OFFSET "+strconv.Itoa(most), args)
		if many = len(more) > 0; err != nil {
			return c, err
		}
	}
	if !many {
		if c, err = t.count(f, most, read); err != nil || most == 0 || c.Total <= most {
			return c, err
		}
	}
	query, args := t.Select("1", f, engine.Page{Limit: most})
	last, err := read(lone+query+") x ORDER BY at DESC, seq DESC LIMIT 1", args)
	if err != nil || len(last) == 0 {
		return engine.Counts{}, err
	}
	f.Until = engine.Position{At: last[0].Last, Seq: last[0].Seq}
	return t.count(f, 0, read)
}

// lone begins a query for a group of one event.
const lone = "SELECT '', '', '', 1, at, at, at, seq FROM ("

// grouped reports whether Groups can count the dead letters of a filter.
func (t Table) grouped(f engine.Filter) bool {
	return t.Groups != "" && reflect.DeepEqual(f, engine.Filter{States: f.States, Type: f.Type, ClinicID: f.ClinicID, Reason: f.Reason, NoReason: f.NoReason})
}

// count counts the events that match f in one pass. If most is not 0 and more events match,
// the result is any number greater than most.
func (t Table) count(f engine.Filter, most int, read func(query string, args []any) ([]Group, error)) (c engine.Counts, err error) {
	limit, dead := "", ""
	if t.Limits && most > 0 {
		limit = " LIMIT " + strconv.Itoa(most+1)
	}
	if t.grouped(f) {
		dead = "SELECT {reason}, {type}, {clinic}, events, oldest, first, last FROM " + t.Groups + " WHERE {where}"
	}
	union, args := t.union(f, engine.Page{})
	groups, err := read("WITH g (reason, type, clinic, events, oldest, first, last) AS MATERIALIZED ("+
		union(`SELECT reason, type, clinic, count(*), min(received), min(at), max(at) FROM (SELECT {reason} AS reason, {type} AS type,
			{clinic} AS clinic, {received} AS received, {at} AS at FROM {from} WHERE {where}`+limit+") part GROUP BY 1, 2, 3", dead)+
		") SELECT type, coalesce(clinic, ''), coalesce(reason, ''), events, oldest, first, last, (SELECT max(seq) FROM ("+
		union("SELECT {seq} AS seq FROM {from} WHERE {where} AND {at} = (SELECT max(last) FROM g)", "")+") x) FROM g", args)
	for _, g := range groups {
		g.AddTo(&c)
		if g.Last.After(c.Until.At) {
			c.Until = engine.Position{At: g.Last, Seq: g.Seq}
		}
	}
	return c, err
}

// statesOf returns the possible states of the events of a filter.
func statesOf(f engine.Filter) (states []engine.State) {
	if strings.Contains(f.ID, "\n") { // no ID contains a line break, and a table may separate IDs with one
		return nil
	}
	onlyDead := !f.GivenUpFrom.IsZero() || !f.GivenUpBefore.IsZero()
	for _, state := range []engine.State{engine.StateWaiting, engine.StateRunning, engine.StateDead} {
		if (f.States == nil || slices.Contains(f.States, state)) && (!onlyDead || state == engine.StateDead) {
			states = append(states, state)
		}
	}
	return states
}

// union returns the arguments of the conditions, and a function that returns the union of one
// query per range. dead is the query for dead letters, without a range. If it is "", query is
// used for them too. {where} stands for the conditions.
func (t Table) union(f engine.Filter, page engine.Page) (union func(query, dead string) string, args []any) {
	where, values, args := t.where(f, page)
	return func(query, dead string) string {
		var parts []string
		add := func(query string, of Table, state engine.State, rows string) {
			parts = append(parts, strings.NewReplacer(
				"{state}", string(state), "{from}", of.From, "{range}", rows, "{at}", of.At[state], "{seq}", of.Seq,
				"{type}", of.Type, "{clinic}", of.ClinicID, "{reason}", of.Reason, "{received}", of.ReceivedAt,
				"{by keys}", of.ByKeys, "{keys}", strings.ReplaceAll(of.Keys, "{}", values["{keys}"]),
				"{event ID}", strings.ReplaceAll(of.EventID, "{}", values["{event ID}"]), "{ID}", strings.ReplaceAll(of.ID, "{}", values["{ID}"]),
			).Replace(strings.ReplaceAll(query, "{where}", where)))
		}
		for _, state := range statesOf(f) {
			of := t
			if state == engine.StateDead && t.Dead != nil {
				of = *t.Dead
			}
			if state == engine.StateDead && dead != "" {
				add(dead, of, state, "true")
				continue
			}
			for _, rows := range of.Ranges[state] {
				add(query, of, state, rows)
			}
		}
		if parts == nil {
			add(query, t, engine.StateRunning, "false")
		}
		return strings.Join(parts, " UNION ALL ")
	}, args
}

// where returns conditions on the columns in braces, and the parameters of {keys}, {event ID} and
// {ID}.
func (t Table) where(f engine.Filter, page engine.Page) (where string, values map[string]string, args []any) {
	value := func(v any) string {
		args = append(args, t.Value(v))
		return t.Parameter + strconv.Itoa(len(args))
	}
	where, values = "{range}", map[string]string{}
	if f.Keys != nil || f.EventID != "" {
		where = "{by keys}{range}"
	}
	type condition struct {
		text  string
		value any
		set   bool
	}
	for _, c := range []condition{{"{keys}", f.Keys, f.Keys != nil}, {"{event ID}", EventID(f.EventID), f.EventID != ""}, {"{ID}", f.ID, f.ID != ""}} {
		if c.set {
			where, values[c.text] = where+" AND "+c.text, value(c.value)
		}
	}
	if f.NoReason {
		where += " AND coalesce({reason}, '') = ''"
	}
	for _, c := range []condition{
		{"{type} = ", string(f.Type), f.Type != ""},
		{"{clinic} = ", f.ClinicID, f.ClinicID != ""},
		{"{reason} = ", f.Reason, f.Reason != ""},
		{"{received} >= ", f.ReceivedFrom, !f.ReceivedFrom.IsZero()},
		{"{received} < ", f.ReceivedBefore, !f.ReceivedBefore.IsZero()},
		{"{at} >= ", f.GivenUpFrom, !f.GivenUpFrom.IsZero()},
		{"{at} < ", f.GivenUpBefore, !f.GivenUpBefore.IsZero()},
	} {
		if c.set {
			where += " AND " + c.text + value(c.value)
		}
	}
	beyond := ">"
	if page.Descending {
		beyond = "<"
	}
	for _, place := range []struct {
		compare  string
		position engine.Position
	}{{"<=", f.Until}, {beyond, page.After}} {
		if !place.position.IsZero() {
			where += " AND ({at}, {seq}) " + place.compare + " (" + value(place.position.At) + ", " + value(place.position.Seq) + ")"
		}
	}
	return where, values, args
}

// Group is a number of events of one type, clinic and reason.
type Group struct {
	Type             events.Type
	ClinicID, Reason string
	Events           int

	// Oldest is the arrival time of the first event.
	Oldest time.Time

	// First and Last are as in [engine.Cause].
	First, Last time.Time

	// Seq is [engine.Position].Seq of the last event of all groups. AddTo ignores it.
	Seq int64
}

// AddTo adds the events of the group to c.
func (g Group) AddTo(c *engine.Counts) {
	if c.Total == 0 {
		c.Types, c.Clinics, c.Causes = map[events.Type]int{}, map[string]int{}, map[string]engine.Cause{}
	}
	c.Total += g.Events
	c.Types[g.Type] += g.Events
	c.Clinics[g.ClinicID] += g.Events
	if c.Oldest.IsZero() || g.Oldest.Before(c.Oldest) {
		c.Oldest = g.Oldest
	}
	cause, found := c.Causes[g.Reason]
	if !found {
		cause = engine.Cause{Types: map[events.Type]int{}, Clinics: map[string]int{}, First: g.First, Last: g.Last}
	}
	cause.Events += g.Events
	cause.Types[g.Type] += g.Events
	cause.Clinics[g.ClinicID] += g.Events
	if g.First.Before(cause.First) {
		cause.First = g.First
	}
	if g.Last.After(cause.Last) {
		cause.Last = g.Last
	}
	c.Causes[g.Reason] = cause
}

// WithTransaction returns the context of an attempt whose handler may call [InTransaction]
// with a transaction of type T. done reports whether the handler did: the outcome is then
// stored already, and there is nothing left to record.
//
// commit must call write and store the attempt, a successful one, in the same transaction. Its
// context is the context of the handler. If that context ends, commit must still find out
// whether the event was stored.
func WithTransaction[T any](ctx context.Context, t Task, commit func(ctx context.Context, a webhook.Attempt, write func(context.Context, T) error) error) (_ context.Context, done func() bool) {
	x := &transaction[T]{commit: commit, attempt: webhook.Attempt{
		Delivery: t.Delivery, Number: t.Attempt, Result: webhook.ResultHandled, Object: t.Object,
	}}
	return context.WithValue(ctx, transactionKey{}, x), x.committed
}

// InTransaction writes rows of your program and stores the event as handled, in one
// transaction: the rows exist exactly if the event counts as handled. ctx must be the context
// of the handler.
//
// It fails if ctx is not from a handler of an engine with transactions of type T, and on a
// second call after a successful one.
//
// If the handler returns an error after a successful call, the event still counts as handled.
// The worker logs the error.
func InTransaction[T any](ctx context.Context, write func(context.Context, T) error) error {
	x, _ := ctx.Value(transactionKey{}).(*transaction[T])
	switch {
	case x == nil:
		return errors.New("engine: InTransaction: the context is not from a handler of this inbox")
	case x.done:
		return errors.New("engine: InTransaction: called twice in one attempt")
	}
	err := x.commit(ctx, x.attempt, write)
	x.done = err == nil
	return err
}

// transaction is an attempt whose outcome the handler may store itself.
type transaction[T any] struct {
	attempt webhook.Attempt
	commit  func(context.Context, webhook.Attempt, func(context.Context, T) error) error
	done    bool
}

func (x *transaction[T]) committed() bool { return x.done }

type transactionKey struct{}

// committed reports whether the handler of this context has stored its outcome.
func committed(ctx context.Context) bool {
	x, _ := ctx.Value(transactionKey{}).(interface{ committed() bool })
	return x != nil && x.committed()
}
