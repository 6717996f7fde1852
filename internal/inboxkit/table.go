package inboxkit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Table describes the events of an engine to [Table.Select]. Its texts are SQL.
type Table struct {
	From string // the table, with an alias
	Seq  string // column of [engine.Position].Seq

	// At are the columns of [engine.Position].At, and Ranges are conditions on rows. Each range is sorted by
	// At and Seq in an index.
	At     map[engine.State]string
	Ranges map[engine.State][]string

	// Type, ClinicID, Reason and ReceivedAt are columns of an event.
	Type, ClinicID, Reason, ReceivedAt string

	// Keys and ID are the conditions of [engine.Filter].Keys and [engine.Filter].ID, with {} for the value. With
	// Keys, ranges have the prefix ByKeys, which can keep the database from using their index.
	Keys, ByKeys, ID string

	// Value converts the keys, texts, times and numbers of conditions for the driver.
	Value func(any) any

	// Parameter is the prefix of a numbered parameter.
	Parameter string
}

// Select returns a query for state, columns, at and seq of the events that match f after a position.
// They are in order if limit is not 0. The query is a union of one query per range.
func (t Table) Select(columns string, f engine.Filter, after engine.Position, limit int) (query string, args []any) {
	value := func(v any) string {
		args = append(args, t.Value(v))
		return t.Parameter + strconv.Itoa(len(args))
	}
	conditions, order := "", ""
	for _, c := range []struct {
		condition string
		value     any
		set       bool
	}{
		{t.Keys, f.Keys, f.Keys != nil},
		{t.Type + " = {}", string(f.Type), f.Type != ""},
		{t.ClinicID + " = {}", f.ClinicID, f.ClinicID != ""},
		{t.Reason + " = {}", f.Reason, f.Reason != ""},
		{t.ID, f.ID, f.ID != ""},
		{t.ReceivedAt + " >= {}", f.ReceivedFrom, !f.ReceivedFrom.IsZero()},
		{t.ReceivedAt + " < {}", f.ReceivedBefore, !f.ReceivedBefore.IsZero()},
		{"{at} >= {}", f.GivenUpFrom, !f.GivenUpFrom.IsZero()},
		{"{at} < {}", f.GivenUpBefore, !f.GivenUpBefore.IsZero()},
	} {
		if c.set {
			conditions += " AND " + strings.ReplaceAll(c.condition, "{}", value(c.value))
		}
	}
	if !f.Until.IsZero() {
		conditions += " AND ({at}, " + t.Seq + ") <= (" + value(f.Until.At) + ", " + value(f.Until.Seq) + ")"
	}
	if !after.IsZero() {
		conditions += " AND ({at}, " + t.Seq + ") > (" + value(after.At) + ", " + value(after.Seq) + ")"
	}
	if limit > 0 {
		order = " ORDER BY at, seq LIMIT " + value(limit)
	}
	one := "SELECT * FROM (SELECT '{state}' AS state, " + columns + ", {at} AS at, " + t.Seq + " AS seq FROM " + t.From + " WHERE {range}" + conditions + order + ") part"
	var parts []string
	add := func(state engine.State, rows string) {
		parts = append(parts, strings.NewReplacer("{state}", string(state), "{at}", t.At[state], "{range}", rows).Replace(one))
	}
	onlyDead := !f.GivenUpFrom.IsZero() || !f.GivenUpBefore.IsZero()
	for _, state := range []engine.State{engine.StateWaiting, engine.StateRunning, engine.StateDead} {
		if (f.States == nil || slices.Contains(f.States, state)) && (!onlyDead || state == engine.StateDead) {
			for _, rows := range t.Ranges[state] {
				if f.Keys != nil {
					rows = t.ByKeys + rows
				}
				add(state, rows)
			}
		}
	}
	if parts == nil {
		add(engine.StateDead, "false")
	}
	return strings.Join(parts, " UNION ALL ") + order, args
}
