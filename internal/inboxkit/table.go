package inboxkit

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

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

	// Keys and ID are the conditions of [engine.Filter].Keys and [engine.Filter].ID, with {}
	// for the value. If a filter has Keys, its ranges have the prefix ByKeys, which can
	// prevent the database from using their index.
	Keys, ByKeys, ID string

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

	// Value converts the keys, texts, times and numbers of conditions for the driver.
	Value func(any) any

	// Parameter is the prefix of a numbered parameter.
	Parameter string
}

// Select returns a query for state, columns, at and seq of the events that match f after a
// position. It sorts them if limit is not 0. The query is a union of one query per range.
// {reason} in columns stands for the column Reason.
func (t Table) Select(columns string, f engine.Filter, after engine.Position, limit int) (query string, args []any) {
	order := ""
	if limit > 0 {
		order = " ORDER BY at, seq LIMIT " + strconv.Itoa(limit)
	}
	union, args := t.union(f, after)
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
		union, args := t.union(engine.Filter{States: states}, engine.Position{})
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
	query, args := t.Select("1", f, engine.Position{}, most)
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
	return t.Groups != "" && reflect.DeepEqual(f, engine.Filter{States: f.States, Type: f.Type, ClinicID: f.ClinicID, Reason: f.Reason})
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
	union, args := t.union(f, engine.Position{})
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
func (t Table) union(f engine.Filter, after engine.Position) (union func(query, dead string) string, args []any) {
	where, keys, id, args := t.where(f, after)
	return func(query, dead string) string {
		var parts []string
		add := func(query string, of Table, state engine.State, rows string) {
			parts = append(parts, strings.NewReplacer(
				"{state}", string(state), "{from}", of.From, "{range}", rows, "{at}", of.At[state], "{seq}", of.Seq,
				"{type}", of.Type, "{clinic}", of.ClinicID, "{reason}", of.Reason, "{received}", of.ReceivedAt,
				"{by keys}", of.ByKeys, "{keys}", strings.ReplaceAll(of.Keys, "{}", keys), "{ID}", strings.ReplaceAll(of.ID, "{}", id),
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

// where returns conditions on the columns in braces, and the parameters of {keys} and {ID}.
func (t Table) where(f engine.Filter, after engine.Position) (where, keys, id string, args []any) {
	value := func(v any) string {
		args = append(args, t.Value(v))
		return t.Parameter + strconv.Itoa(len(args))
	}
	where = "{range}"
	if f.Keys != nil {
		where, keys = "{by keys}{range} AND {keys}", value(f.Keys)
	}
	if f.ID != "" {
		where, id = where+" AND {ID}", value(f.ID)
	}
	for _, c := range []struct {
		condition string
		value     any
		set       bool
	}{
		{"{type} = ", string(f.Type), f.Type != ""},
		{"{clinic} = ", f.ClinicID, f.ClinicID != ""},
		{"{reason} = ", f.Reason, f.Reason != ""},
		{"{received} >= ", f.ReceivedFrom, !f.ReceivedFrom.IsZero()},
		{"{received} < ", f.ReceivedBefore, !f.ReceivedBefore.IsZero()},
		{"{at} >= ", f.GivenUpFrom, !f.GivenUpFrom.IsZero()},
		{"{at} < ", f.GivenUpBefore, !f.GivenUpBefore.IsZero()},
	} {
		if c.set {
			where += " AND " + c.condition + value(c.value)
		}
	}
	for _, place := range []struct {
		compare  string
		position engine.Position
	}{{"<=", f.Until}, {">", after}} {
		if !place.position.IsZero() {
			where += " AND ({at}, {seq}) " + place.compare + " (" + value(place.position.At) + ", " + value(place.position.Seq) + ")"
		}
	}
	return where, keys, id, args
}
