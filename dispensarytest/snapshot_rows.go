package dispensarytest

import "slices"

// changed collects the rows of a table that another one has not. Rows are replaced and
// never changed, and chunks of them are copied before they are written: what has the
// same address is the same.
func changed[T, F any](now, base *table[T], as func(*T) F) (file []F) {
	for at, chunk := range now.rows.chunks {
		n := (now.rows.before + at) * chunkSize
		if here := n/chunkSize - base.rows.before; here >= 0 && here < len(base.rows.chunks) && base.rows.chunks[here] == chunk {
			continue
		}
		for i, row := range chunk {
			if row != nil && !(n+i >= base.first && n+i < base.rows.end && base.rows.at(n+i) == row) {
				file = append(file, as(row))
			}
		}
	}
	return file
}

// changedRows is changed for rows that are saved as they are.
func changedRows[T any](now, base *table[T]) []*T {
	return changed(now, base, func(row *T) *T { return row })
}

// same reports that two states of one table are the same: nothing was written between
// them.
func (t *table[T]) same(other *table[T]) bool {
	return t.rows.end == other.rows.end && t.live == other.live && slices.Equal(t.rows.chunks, other.rows.chunks)
}
