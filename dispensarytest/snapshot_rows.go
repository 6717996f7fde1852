package dispensarytest

import "errors"

// rowsFile is what a list of rows has that an earlier one has not.
type rowsFile[F any] struct {
	Len  int   // of the list
	At   []int `json:",omitempty"` // the seats of Rows; without it they are the first ones
	Rows []F   `json:",omitempty"`
}

func (f *rowsFile[F]) add(at int, row F) {
	if f.At != nil || at != len(f.Rows) {
		f.spell()
		f.At = append(f.At, at)
	}
	f.Rows = append(f.Rows, row)
}

// spell names the seats so far, which went without saying.
func (f *rowsFile[F]) spell() {
	if f.At == nil {
		f.At = make([]int, 0, len(f.Rows)+1)
		for at := range f.Rows {
			f.At = append(f.At, at)
		}
	}
}

// merge takes changes over into a whole list.
func (f *rowsFile[F]) merge(changes rowsFile[F]) error {
	changes.spell()
	if len(changes.At) != len(changes.Rows) || changes.Len < 0 {
		return errors.New("rows without seats")
	}
	f.Rows, f.Len = f.Rows[:min(len(f.Rows), changes.Len)], changes.Len
	for i, at := range changes.At {
		switch {
		case at >= 0 && at < len(f.Rows):
			f.Rows[at] = changes.Rows[i]
		case at == len(f.Rows):
			f.Rows = append(f.Rows, changes.Rows[i])
		default:
			return errors.New("a row beyond its list")
		}
	}
	if len(f.Rows) != f.Len {
		return errors.New("a list that lacks rows")
	}
	return nil
}

// changed collects the rows of a table that an earlier state of it has not. Rows are
// replaced and never changed, and chunks of them are copied before they are
// written: what has the same address is the same.
func changed[T, F any](now, before *table[T], as func(*T) F) rowsFile[F] {
	file := rowsFile[F]{Len: now.len()}
	for n, chunk := range now.rows.chunks {
		if n < len(before.rows.chunks) && chunk == before.rows.chunks[n] {
			continue
		}
		for seat := n * chunkSize; seat < min((n+1)*chunkSize, now.len()); seat++ {
			if row := now.at(seat); seat >= before.len() || row != before.at(seat) {
				file.add(seat, as(row))
			}
		}
	}
	return file
}

// changedRows is changed for rows that are saved as they are.
func changedRows[T any](now, before *table[T]) rowsFile[*T] {
	return changed(now, before, func(row *T) *T { return row })
}
