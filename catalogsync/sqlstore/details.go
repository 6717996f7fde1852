package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// batch is the number of records per query if all records are read.
const batch = 500

// SaveDetails implements [catalogstore.Store].
func (s *Store) SaveDetails(ctx context.Context, readAt time.Time, product catalog.Product) (changed bool, err error) {
	if err := catalogstore.CheckID(product.ID); err != nil {
		return false, err
	}
	readAt = exact(readAt)
	err = s.change(ctx, "save details", func(t *tx) (err error) {
		stored, err := rowsOf(ctx, t, scanRow, s.sql.record, product.ID)
		if err != nil {
			return err
		}
		var r row
		var before catalogstore.Record
		if len(stored) > 0 {
			r = stored[0]
			if before, err = r.record(); err != nil {
				return err
			}
		}
		after, changes := before.Detailed(product, readAt)
		if changed = changes; changed {
			after.Revision = t.next()
		}
		r.Number = cmp.Or(r.Number, after.Revision)
		if err := r.encode(after); err != nil {
			return err
		}
		if err := t.put([]row{r}); err != nil {
			return err
		}
		_, err = t.exec(s.sql.drop, product.ID, micros(readAt))
		return err
	})
	return changed && err == nil, err
}

// SaveAttributes implements [catalogstore.Store].
func (s *Store) SaveAttributes(ctx context.Context, attributes map[string]catalogstore.Attributes) error {
	return s.change(ctx, "save attributes", func(t *tx) error {
		for after := int64(0); ; {
			last, changed, err := t.attributed(after, attributes)
			if err != nil || last == 0 {
				return err
			}
			if err := t.attribute(changed, attributes); err != nil {
				return err
			}
			after = last
		}
	})
}

// attributed reads up to batch products with a number greater than after. It returns the last
// number, or 0 if there is no product, and the numbers of the products whose attributes
// differ.
func (t *tx) attributed(after int64, attributes map[string]catalogstore.Attributes) (last int64, changed []int64, err error) {
	_, err = rowsOf(t.ctx, t, func(rows *sql.Rows) (none struct{}, err error) {
		var id string
		var stored *string
		if err := rows.Scan(&last, &id, &stored); err != nil {
			return none, err
		}
		wanted, err := encodeAttributes(attributes[id])
		if text(wanted) != text(stored) {
			changed = append(changed, last)
		}
		return none, err
	}, t.store.sql.attributes, after, batch)
	return last, changed, err
}

// attribute stores the attributes of the products with these numbers.
func (t *tx) attribute(numbers []int64, attributes map[string]catalogstore.Attributes) error {
	if len(numbers) == 0 {
		return nil
	}
	all, err := rowsOf(t.ctx, t, scanRow, t.store.sql.records, array(numbers))
	if err != nil {
		return err
	}
	for i := range all {
		record, err := all[i].record()
		if err != nil {
			return err
		}
		record, changed := record.Attributed(attributes[all[i].ID])
		if changed {
			record.Revision = t.next()
		}
		if err := all[i].encode(record); err != nil {
			return err
		}
	}
	return t.put(all)
}

// Get implements [catalogstore.Store].
func (s *Store) Get(ctx context.Context, id string) (catalogstore.Record, error) {
	if catalogstore.CheckID(id) != nil {
		return catalogstore.Record{}, cmp.Or(ctx.Err(), catalogstore.ErrNotStored)
	}
	records, err := read(ctx, s, "get", scanRecord, s.sql.record, id)
	if err == nil && len(records) == 0 {
		err = catalogstore.ErrNotStored
	}
	if err != nil {
		return catalogstore.Record{}, err
	}
	return records[0], nil
}

// Changes implements [catalogstore.Store].
func (s *Store) Changes(ctx context.Context, after int64, limit int) ([]catalogstore.Record, error) {
	return read(ctx, s, "read changes", scanRecord, s.sql.changes, after, limit)
}

// Undetailed implements [catalogstore.Store].
func (s *Store) Undetailed(ctx context.Context, after string, limit int) ([]string, error) {
	return read(ctx, s, "read products without details", scanText, s.sql.undetailed, after, limit)
}
