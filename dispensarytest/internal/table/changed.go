package table

import "slices"

// ChangedRows collects the rows of a table that another one has not. Rows are replaced and
// never changed, and chunks of them are copied before they are written: what has the
// same address is the same.
func ChangedRows[T, F any](now, base *Table[T], as func(*T) F) (file []F) {
	for at, chunk := range now.Rows.chunks {
		n := (now.Rows.before + at) * ChunkSize
		if here := n/ChunkSize - base.Rows.before; here >= 0 && here < len(base.Rows.chunks) && base.Rows.chunks[here] == chunk {
			continue
		}
		for i, row := range chunk {
			if row != nil && !(n+i >= base.first && n+i < base.Rows.End && base.Rows.At(n+i) == row) {
				file = append(file, as(row))
			}
		}
	}
	return file
}

// Changed is changed for rows that are saved as they are.
func Changed[T any](now, base *Table[T]) []*T {
	return ChangedRows(now, base, func(row *T) *T { return row })
}

// Same reports that two states of one table are the same: nothing was written between
// them.
func (t *Table[T]) Same(other *Table[T]) bool {
	return t.Rows.End == other.Rows.End && t.live == other.live && slices.Equal(t.Rows.chunks, other.Rows.chunks)
}
