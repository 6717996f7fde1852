package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// SavePage implements [catalogstore.Store].
func (s *Store) SavePage(ctx context.Context, w catalogstore.Walk, products []catalogstore.Listed) (catalogstore.Counts, error) {
	ids := make([]string, len(products))
	for i := range products {
		ids[i] = products[i].Product.ID
	}
	var counts catalogstore.Counts
	err := s.change(ctx, "save a page", func(t *tx) error {
		if err := t.underWay(w); err != nil {
			return err
		}
		t.newest = newWalk(w)
		p := page{tx: t, generation: w.Generation}
		if len(products) > 0 {
			p.readAt = products[0].ReadAt
		}
		if err := p.save(products, ids); err != nil {
			return err
		}
		counts = p.counts
		return nil
	})
	return counts, err
}

// page collects the changes of one page.
type page struct {
	*tx
	generation int64
	readAt     time.Time
	counts     catalogstore.Counts

	rows      []row    // changed and new ones
	marked    []int64  // numbers of the unchanged ones
	requested []string // ids to read one by one
}

// known is the stored state of a product, without its content.
type known struct {
	id, presence, listed string
	number, generation   int64
}

// save stores the products of a page. The column listed has the Hash that a list gave the
// product last. If it is the same again, save neither reads nor writes the document.
func (p *page) save(products []catalogstore.Listed, ids []string) error {
	stored, err := p.known(ids)
	if err != nil {
		return err
	}
	var numbers []int64
	changed := map[string]catalogstore.Listed{}
	for _, listed := range products {
		switch k, there := stored[listed.Product.ID]; {
		case !there:
			p.create(listed)
		case k.listed == listed.Hash && k.presence == string(catalogstore.PresencePresent):
			p.count(k.generation, false)
			p.marked = append(p.marked, k.number)
		default:
			numbers, changed[k.id] = append(numbers, k.number), listed
		}
	}
	if err := p.update(numbers, changed); err != nil {
		return err
	}
	if err := p.put(p.rows); err != nil {
		return err
	}
	if _, err := p.exec(p.store.sql.mark, array(p.marked), p.generation, micros(p.readAt)); err != nil {
		return err
	}
	return request(p.ctx, p, p.store.sql.request, p.readAt, p.requested)
}

func (p *page) known(ids []string) (map[string]known, error) {
	all, err := rowsOf(p.ctx, p, scanKnown, p.store.sql.known, array(ids))
	stored := make(map[string]known, len(all))
	for _, k := range all {
		stored[k.id] = k
	}
	return stored, err
}

func scanKnown(rows *sql.Rows) (k known, err error) {
	err = rows.Scan(&k.id, &k.number, &k.presence, &k.generation, &k.listed)
	return k, err
}

func (p *page) create(l catalogstore.Listed) {
	l.Revision = p.next()
	r := row{Number: l.Revision, Generation: p.generation}
	r.fill(l.Record, l.Hash, l.Document)
	p.rows = append(p.rows, r)
	p.counts.Created++
}

// update stores the list content of known products with another content or presence.
func (p *page) update(numbers []int64, changed map[string]catalogstore.Listed) error {
	if len(numbers) == 0 {
		return nil
	}
	stored, err := rowsOf(p.ctx, p, scanRow, p.store.sql.records, array(numbers))
	if err != nil {
		return err
	}
	for _, r := range stored {
		before, err := r.record()
		if err != nil {
			return err
		}
		after, differs := before.Listed(changed[r.ID].Product, exact(p.readAt))
		p.count(r.Generation, differs)
		if differs {
			after.Revision = p.next()
		}
		if after.Hash != before.Hash && !before.DetailsAt.IsZero() {
			p.requested = append(p.requested, r.ID)
		}
		r.Generation = p.generation
		if err := r.encode(after); err != nil {
			return err
		}
		p.rows = append(p.rows, r)
	}
	return nil
}

func (p *page) count(seen int64, changed bool) {
	switch {
	case seen == p.generation:
		p.counts.Repeated++
	case changed:
		p.counts.Updated++
	default:
		p.counts.Unchanged++
	}
}
