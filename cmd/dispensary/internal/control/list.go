package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
)

// Bounds of a page. It ends before it is larger than maxPage bytes, unless its first row
// is.
const (
	maxPage      = 96 << 10
	defaultLimit = 100
	maxLimit     = 1000
)

// list makes an operation that answers with a page of rows. Rows can be narrowed to
// those whose fields have a value; the names are those of the JSON.
func list[A any](id, path, key, summary string, run func(c *call) []A, fields ...string) Operation {
	op := Operation{
		ID: id, Method: http.MethodGet, Path: path, Summary: summary, key: key,
		answer: reflect.TypeFor[[]A](),
		run: func(c *call, _ []byte) (any, error) {
			rows := run(c)
			for _, field := range fields {
				if want := c.query.Get(field); want != "" {
					rows = slices.DeleteFunc(slices.Clone(rows), func(row A) bool { return fieldOf(row, field) != want })
				}
			}
			return page(c, key, rows)
		},
	}
	op.Query = []Query{
		{Name: "limit", Summary: "how many rows to return at most: 100 without it, 1000 at most, and none beyond 96 KiB", Number: true},
		{Name: "after", Summary: "the next of the page before"},
		{Name: "order_by", Summary: "ASC, or DESC for the latest first"},
	}
	for _, field := range fields {
		op.Query = append(op.Query, Query{Name: field, Summary: "rows with this " + field + " alone"})
	}
	return op
}

// page encodes the rows that a page has room for.
func page[A any](c *call, key string, rows []A) (any, error) {
	total := len(rows)
	rows, err := requested(c, rows)
	if err != nil {
		return nil, err
	}
	limit, err := c.number("limit")
	if err != nil {
		return nil, err
	}
	if limit < 0 {
		limit = defaultLimit
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "{%q:[", key)
	shown := 0
	for ; shown < min(len(rows), limit, maxLimit); shown++ {
		row, err := encode(rows[shown])
		if err != nil {
			return nil, err
		}
		if shown > 0 && out.Len()+len(row) > maxPage {
			break
		}
		if shown > 0 {
			out.WriteByte(',')
		}
		out.Write(row)
	}
	next := "null"
	if shown > 0 && shown < len(rows) {
		next = strconv.Quote(nameOf(rows[shown-1]))
	}
	fmt.Fprintf(&out, `],"next":%s,"total":%d}`, next, total)
	return json.RawMessage(out.Bytes()), nil
}

// requested returns the rows in the order that a request asks for, from the row after
// the one that it names.
func requested[A any](c *call, rows []A) ([]A, error) {
	switch c.query.Get("order_by") {
	case "", "ASC":
	case "DESC":
		rows = slices.Clone(rows)
		slices.Reverse(rows)
	default:
		return nil, invalid("order_by is ASC or DESC")
	}
	after := c.query.Get("after")
	if after == "" {
		return rows, nil
	}
	at := slices.IndexFunc(rows, func(row A) bool { return nameOf(row) == after })
	if at < 0 {
		return nil, &problem{status: http.StatusNotFound, message: "after: the list has no row " + after + " any more"}
	}
	return rows[at+1:], nil
}

// nameOf is what identifies a row in its list.
func nameOf(row any) string {
	for _, name := range []string{"id", "seq", "value", "event_id", "name"} {
		if text := fieldOf(row, name); text != "" {
			return text
		}
	}
	return ""
}

// fieldOf is a field of a row as text, "" where it has none of the name.
func fieldOf(row any, name string) string {
	v := reflect.Indirect(reflect.ValueOf(row))
	if v.Kind() != reflect.Struct {
		return fmt.Sprint(row)
	}
	for _, f := range fieldsOf(v.Type()) {
		if f.name == name {
			return fmt.Sprint(v.Field(f.index).Interface())
		}
	}
	return ""
}
