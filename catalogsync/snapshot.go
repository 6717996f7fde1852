package catalogsync

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/catalog"
)

// Snapshots stores one document: the compressed copy of the catalog, about 200 bytes per product
// without details and 700 with them. [File] implements it, and the cookbook has one for PostgreSQL.
// It is safe for concurrent use.
type Snapshots interface {
	// Load returns the document and its version. It returns no document if there is none, or if
	// its version is known.
	Load(ctx context.Context, known string) (document []byte, version string, err error)

	// Save replaces the whole document, and returns its new version. It need not compare versions,
	// because a [Catalog] merges the document of another process.
	Save(ctx context.Context, document []byte) (version string, err error)
}

const (
	// format is the version of the document.
	format = 1

	// revisionGap separates the revisions of a process from those of its last one, which may have
	// used higher revisions than it saved.
	revisionGap = 1_000_000

	// large is the number of products from which snapshots and indexes, which then take seconds,
	// are made once in ten minutes.
	large = 100_000
)

// head is the first line of a document. A line for each record follows.
type head struct {
	Format   int       `json:"format"`
	Revision int64     `json:"revision"`
	Shared   bool      `json:"shared"`
	Newest   Walk      `json:"newest"`
	Complete Walk      `json:"complete"`
	Heard    time.Time `json:"heard"`
	Pending  []string  `json:"pending"`
	Records  int       `json:"records"`
}

// line is a record of a document.
type line struct {
	Product    catalog.Product `json:"product"`
	Attributes Attributes      `json:"attributes"`
	Presence   Presence        `json:"presence"`
	ReadAt     time.Time       `json:"read_at"`
	DetailsAt  time.Time       `json:"details_at,omitzero"`
	Revision   int64           `json:"revision"`
}

// shared is the state of the snapshots.
type shared struct {
	version string
	saved   int       // edits at the last save
	next    time.Time // of tend
}

// period is the interval between snapshots, and between indexes. The caller holds the lock.
func (c *contents) period() time.Duration {
	if len(c.records) > large {
		return 10 * time.Minute
	}
	return time.Minute
}

// tend exchanges snapshots and builds the index, once per period. It logs a failure.
func (c *Catalog) tend(ctx context.Context) {
	s := <-c.shares
	defer func() { c.shares <- s }()
	if time.Now().Before(s.next) {
		return
	}
	err := c.exchange(ctx, s)
	c.index()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.next = time.Now().Add(c.period())
	if err != nil && ctx.Err() == nil {
		c.config.Logger.LogAttrs(ctx, slog.LevelError, "could not exchange the snapshot of the catalog", slog.String("reason", err.Error()))
	}
}

// share exchanges snapshots now.
func (c *Catalog) share(ctx context.Context) error {
	s := <-c.shares
	defer func() { c.shares <- s }()
	return c.exchange(ctx, s)
}

// exchange loads the snapshot of another process and saves one. It does not replace a document that
// it cannot load, which may be of a newer release, or no snapshot at all.
func (c *Catalog) exchange(ctx context.Context, s *shared) error {
	if err := c.load(ctx, s); err != nil {
		return err
	}
	return c.save(ctx, s)
}

// shareLast exchanges snapshots even if ctx has ended.
func (c *Catalog) shareLast(ctx context.Context) error {
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	return c.share(saving)
}

// finish exchanges snapshots even if ctx has ended, and builds the index.
func (c *Catalog) finish(ctx context.Context) error {
	err := c.shareLast(ctx)
	c.index()
	return err
}

// load merges the snapshot of another process.
func (c *Catalog) load(ctx context.Context, s *shared) error {
	if c.config.Snapshots == nil {
		return nil
	}
	document, version, err := c.config.Snapshots.Load(ctx, s.version)
	if err != nil {
		return fmt.Errorf("catalogsync: load the snapshot: %w", err)
	}
	if document == nil {
		return nil
	}
	h, records, err := decode(document)
	if err != nil {
		return fmt.Errorf("catalogsync: not a snapshot of a catalog: %w", err)
	}
	s.version = version
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.records) == 0 && c.newest.Generation == 0 {
		c.adopt(h, records)
	} else {
		c.merge(h, records)
	}
	return nil
}

// save saves a snapshot if something has changed.
func (c *Catalog) save(ctx context.Context, s *shared) error {
	if c.config.Snapshots == nil {
		return nil
	}
	c.mu.Lock()
	edits := c.edits
	h := head{Format: format, Revision: c.revision, Shared: c.shared, Newest: c.newest, Complete: c.complete, Heard: c.heard, Records: len(c.records)}
	for id := range c.pending {
		h.Pending = append(h.Pending, id)
	}
	records := make([]*record, 0, len(c.records))
	for _, r := range c.records {
		records = append(records, r)
	}
	c.mu.Unlock()
	if edits == s.saved {
		return nil
	}
	document, err := encode(h, records)
	if err != nil {
		return err
	}
	version, err := c.config.Snapshots.Save(ctx, document)
	if err != nil {
		return fmt.Errorf("catalogsync: save the snapshot: %w", err)
	}
	s.version, s.saved = version, edits
	return nil
}

func encode(h head, records []*record) ([]byte, error) {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	e := json.NewEncoder(z)
	err := e.Encode(h)
	for _, r := range records {
		if err == nil {
			err = e.Encode(line{r.Product, r.Attributes, r.Presence, r.ReadAt, r.DetailsAt, r.Revision})
		}
	}
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

func decode(document []byte) (h head, records []*record, err error) {
	z, err := gzip.NewReader(bytes.NewReader(document))
	if err != nil {
		return h, nil, err
	}
	lines := bufio.NewScanner(z) // a json.Decoder takes longer
	lines.Buffer(nil, 1<<30)
	next := func(to any) error {
		if !lines.Scan() {
			return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
		}
		return json.Unmarshal(lines.Bytes(), to)
	}
	if err := next(&h); err != nil {
		return h, nil, err
	}
	if h.Format != format {
		return h, nil, fmt.Errorf("format %d of another release", h.Format)
	}
	for range h.Records {
		var l line
		if err := next(&l); err != nil {
			return h, nil, err
		}
		records = append(records, &record{Record: Record{l.Product, l.Attributes, l.Presence, l.ReadAt, l.DetailsAt, l.Revision}})
	}
	return h, records, nil
}

// notAfter returns the earlier time. A stored time in the future, from a clock that is or was
// ahead, counts as now. Otherwise no walk would begin until the clocks reach it.
func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// adopt continues the work of the process that saved a document. If several processes do, the
// document has the revisions of any one of them. Then a reader must see all records again, so they
// get revisions above those of earlier processes, which no process reaches by counting.
func (c *contents) adopt(h head, records []*record) {
	now := time.Now()
	c.now++
	c.revision, c.newest, c.complete, c.begun, c.heard = h.Revision+revisionGap, h.Newest, h.Complete, c.now, h.Heard
	if c.shared = h.Shared; h.Shared {
		c.revision = max(c.revision, now.UnixMicro())
	}
	c.newest.StartedAt, c.complete.StartedAt = notAfter(h.Newest.StartedAt, now), notAfter(h.Complete.StartedAt, now)
	for _, r := range records {
		if h.Newest.CompletedAt.IsZero() && !r.ReadAt.Before(h.Newest.StartedAt) { // seen by the interrupted walk
			r.read, r.listed = c.now, c.now
		}
		r.ReadAt, r.DetailsAt = notAfter(r.ReadAt, now), notAfter(r.DetailsAt, now)
		c.records[r.Product.ID] = r
		if h.Shared {
			c.number(r)
		} else {
			c.changed = append(c.changed, change{r.Revision, r.Product.ID})
		}
	}
	slices.SortFunc(c.changed, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	for _, id := range h.Pending {
		c.pending[id] = c.now
	}
}

// merge adds the records of another process. The newer read wins. This process orders its own
// reads by moments, so its next read of a product wins in any case.
func (c *contents) merge(h head, records []*record) {
	now, edits := time.Now(), c.edits
	asNew := h.Complete.Generation > 0 && !notAfter(h.Complete.StartedAt, now).Before(c.complete.StartedAt)
	c.now++
	c.shared = true
	mine := len(c.records) // records that the document has older or not at all
	for _, r := range records {
		r.ReadAt, r.DetailsAt = notAfter(r.ReadAt, now), notAfter(r.DetailsAt, now)
		before, next := c.get(r.Product.ID)
		if before == nil {
			r.read = c.now
			c.put(r.Product.ID, nil, *r)
			continue
		}
		if !next.ReadAt.After(r.ReadAt) && !next.DetailsAt.After(r.DetailsAt) {
			mine--
		}
		if r.ReadAt.After(next.ReadAt) {
			details := next.Product
			next.Product, next.Presence, next.ReadAt, next.read = r.Product, r.Presence, r.ReadAt, c.now
			setDetails(&next.Product, details)
		}
		if r.DetailsAt.After(next.DetailsAt) {
			setDetails(&next.Product, r.Product)
			next.DetailsAt, next.detailed = r.DetailsAt, c.now
		}
		if asNew {
			next.Attributes = r.Attributes
			if next.ReadAt.Before(h.Complete.StartedAt) {
				next.Presence = r.Presence
			}
		}
		c.put(r.Product.ID, before, next)
	}
	if asNew {
		c.complete = h.Complete
		c.complete.StartedAt = notAfter(h.Complete.StartedAt, now)
		if !c.newest.CompletedAt.IsZero() || !c.newest.StartedAt.After(c.complete.StartedAt) {
			c.newest = c.complete
		}
	}
	if h.Newest.Generation > 0 && h.Newest.CompletedAt.IsZero() {
		c.elsewhere = now
	}
	if c.edits = edits; mine > 0 {
		c.edits++
	}
}

// File returns snapshots in a file. It replaces the file as a whole and syncs it to disk. Several
// processes on one machine may use the file.
func File(path string) Snapshots { return file(path) }

type file string

// Load implements [Snapshots].
func (f file) Load(_ context.Context, known string) (document []byte, version string, err error) {
	opened, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = opened.Close() }()
	version, err = fileVersion(opened)
	if err != nil || version == known {
		return nil, version, err
	}
	document, err = io.ReadAll(opened)
	return document, version, err
}

// Save implements [Snapshots].
func (f file) Save(_ context.Context, document []byte) (version string, err error) {
	folder := filepath.Dir(string(f))
	next, err := os.CreateTemp(folder, filepath.Base(string(f))+".*.tmp")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next.Name())
		}
	}()
	_, err = next.Write(document)
	err = errors.Join(err, next.Sync())
	version, failed := fileVersion(next)
	if err = errors.Join(err, failed, next.Close()); err != nil {
		return "", err
	}
	if err = os.Rename(next.Name(), string(f)); err != nil {
		return "", err
	}
	if opened, failed := os.Open(folder); failed == nil { // so that the new name survives a power cut
		_ = opened.Sync() // Windows cannot
		_ = opened.Close()
	}
	return version, nil
}

func fileVersion(f *os.File) (string, error) {
	about, err := f.Stat()
	if err != nil {
		return "", err
	}
	return fmt.Sprint(about.ModTime().UnixNano(), "-", about.Size()), nil
}
