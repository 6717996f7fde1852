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

// Limits of a page. defaultLimit and maxLimit count rows, maxPage counts bytes. A page exceeds
// maxPage only if its first row does.
const (
	maxPage      = 96 << 10
	defaultLimit = 100
	maxLimit     = 1000
)

// list defines an operation that returns pages of rows. Each of fields is a query parameter
// that selects the rows with this value. Fields have their JSON names.
func list[A any](id, path, key, summary string, run func(c *call) []A, fields ...string) Operation {
	op := Operation{
		ID: id, Method: http.MethodGet, Path: path, Summary: summary, key: key,
		response: reflect.TypeFor[[]A](),
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
		{Name: "limit", Summary: "maximum number of rows: default 100, at most 1000. A page also ends at 96 KiB.", Number: true},
		{Name: "after", Summary: "value of next in the previous page"},
		{Name: "order_by", Summary: "ASC (default), or DESC for the newest first"},
	}
	for _, field := range fields {
		op.Query = append(op.Query, Query{Name: field, Summary: "rows with this " + field + " only"})
	}
	return op
}

// page encodes the rows of one page.
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

// requested returns rows in the requested order, starting behind the row in the query
// parameter after.
func requested[A any](c *call, rows []A) ([]A, error) {
	switch c.query.Get("order_by") {
	case "", "ASC":
	case "DESC":
		rows = slices.Clone(rows)
		slices.Reverse(rows)
	default:
		return nil, invalid("order_by must be ASC or DESC")
	}
	after := c.query.Get("after")
	if after == "" {
		return rows, nil
	}
	at := slices.IndexFunc(rows, func(row A) bool { return nameOf(row) == after })
	if at < 0 {
		return nil, &problem{status: http.StatusNotFound, message: "after: the row " + after + " is no longer in the list"}
	}
	return rows[at+1:], nil
}

// nameOf returns the identifier of a row in its list.
func nameOf(row any) string {
	for _, name := range []string{"id", "seq", "value", "event_id", "name"} {
		if text := fieldOf(row, name); text != "" {
			return text
		}
	}
	return ""
}

// fieldOf returns a field of row as text, or "" if row has no field of this name. A row that
// is not a struct is its own value.
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
