package dispensary_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parse reads a JSON value, with numbers as they are written.
func parse(t testing.TB, data []byte) (value any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&value))
	return value
}

// object is a JSON object; its members are always visited in the same order.
type object = map[string]any

func keys(o object) []string { return slices.Sorted(maps.Keys(o)) }

// mutator changes JSON in the ways the API calls compatible, and in the odd ways
// that are documented. Its choices follow from the seed.
type mutator struct{ *rand.Rand }

func newMutator(seed uint64) mutator { return mutator{rand.New(rand.NewPCG(seed, 77))} }

// often is true two times out of five.
func (m mutator) often() bool { return m.IntN(5) < 2 }

func pickOne[T any](m mutator, values ...T) T { return values[m.IntN(len(values))] }

// rename gives texts another length and form, and statuses values that no client has
// heard of: compatible changes that change the value.
func (m mutator) rename(key string, value any) any {
	switch value := value.(type) {
	case object:
		for _, name := range keys(value) {
			value[name] = m.rename(name, value[name])
		}
	case []any:
		for i, inner := range value {
			value[i] = m.rename(key, inner)
		}
	case string:
		switch {
		case !m.often():
		case key == "id", strings.HasSuffix(key, "_id"), strings.HasSuffix(key, "_ids"):
			return pickOne(m, "svc_", "01J", "") + value + strings.Repeat("-0f", m.IntN(40))
		case slices.Contains([]string{"status", "state", "current_state", "availability", "gender", "ownership_type"}, key):
			return pickOne(m, "archived", "vendor backorder", "on_hold")
		case slices.Contains([]string{"name", "first_name", "last_name", "description", "personal_message", "additional_info"}, key):
			return value + pickOne(m, " – Zoë & <Ωμέγα> ", "\t\"quoted\" \\ / 日本語 🌿", strings.Repeat("long ", 200))
		}
	}
	return value
}

// vary writes the same value in another way. parent is the object that holds it.
func (m mutator) vary(key string, value any, parent object) any {
	switch value := value.(type) {
	case object:
		return m.varyObject(key, value, parent)
	case []any:
		for i, inner := range value {
			value[i] = m.vary(key, inner, parent)
		}
		return value
	}
	if !m.often() {
		return value
	}
	switch value := value.(type) {
	case bool:
		return m.varyBool(value)
	case json.Number:
		return m.varyNumber(key, value)
	case string:
		return m.varyText(key, value)
	}
	return value
}

func (m mutator) varyBool(value bool) any {
	if value {
		return pickOne[any](m, json.Number("1"), "true", "1")
	}
	return pickOne[any](m, json.Number("0"), "false", "0")
}

func (m mutator) varyNumber(key string, value json.Number) any {
	text := value.String()
	// Units are kept as they are written, and the notification is a boolean.
	if key != "units" && key != "text_message_notification" && !strings.Contains(text, ".") {
		return pickOne[any](m, text, json.Number(text+".0"))
	}
	return text
}

func (m mutator) varyText(key, value string) any {
	const midnight = "T00:00:00Z"
	switch {
	case key == "date_of_birth", key == "available_at":
		return value + pickOne(m, midnight, "T00:00:00.000Z", "T00:00:00+00:00")
	case strings.HasSuffix(key, "_at") && strings.HasSuffix(value, "Z"):
		plain := strings.TrimSuffix(value, "Z")
		return pickOne(m, plain+"+00:00", plain+"000000Z", plain+"+0000", strings.Replace(plain, "T", " ", 1)+" UTC")
	case strings.HasPrefix(key, "msrp"), strings.HasSuffix(key, "_total"):
		return json.Number(value)
	}
	return value
}

func (m mutator) varyObject(key string, o, parent object) any {
	varied := object{}
	for _, name := range keys(o) {
		if o[name] == nil && m.often() {
			continue // null is left out
		}
		varied[name] = m.vary(name, o[name], o)
	}
	if key == "dosage" && parent["variant_id"] != nil && m.often() {
		for _, name := range []string{"amount", "frequency", "duration"} {
			if value, there := varied[name]; there {
				delete(varied, name)
				varied["recommended_"+name] = value
			}
		}
	}
	if kind, isEvent := parent["type"].(string); key == "data" && isEvent && parent["created_at"] != nil && m.often() {
		varied = rewrap(kind, varied)
	}
	for range m.IntN(3) {
		varied[fmt.Sprintf("new_%x", m.Uint32())] = m.anything(2)
	}
	return varied
}

// rewrap takes the data of an event out of its wrapper, or puts it in.
func rewrap(kind string, data object) object {
	name, _, _ := strings.Cut(kind, ".")
	if inner, wrapped := data[name].(object); wrapped {
		return inner
	}
	return object{name: data}
}

// anything is a value that no client expects.
func (m mutator) anything(depth int) any {
	switch n := m.IntN(8); {
	case n == 0 && depth > 0:
		return object{"id": m.anything(depth - 1), "name": m.anything(depth - 1)}
	case n == 1 && depth > 0:
		return []any{m.anything(depth - 1), object{}, []any{}}
	default:
		return pickOne[any](m, nil, true, "text", "", json.Number("1e400"), json.Number("-0.5"))
	}
}

// write encodes a value, with another order, other escapes and other spaces than the
// platform's.
func (m mutator) write(b *bytes.Buffer, value any) {
	space := func() { b.WriteString(pickOne(m, "", "", "", " ", "\n\t")) }
	switch value := value.(type) {
	case object:
		names := keys(value)
		m.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		m.writeList(b, "{", "}", len(names), func(i int) {
			m.write(b, names[i])
			b.WriteByte(':')
			space()
			m.write(b, value[names[i]])
		})
	case []any:
		m.writeList(b, "[", "]", len(value), func(i int) { m.write(b, value[i]) })
	case string:
		quoted, _ := json.Marshal(value) // escapes <, > and &, as some servers do
		if m.often() {
			quoted = bytes.ReplaceAll(quoted, []byte("/"), []byte(`\/`))
		}
		b.Write(quoted)
	default:
		data, _ := json.Marshal(value)
		b.Write(data)
	}
	space()
}

func (m mutator) writeList(b *bytes.Buffer, open, end string, n int, item func(i int)) {
	b.WriteString(open)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		item(i)
	}
	b.WriteString(end)
}
