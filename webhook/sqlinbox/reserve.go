package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
)

// How much room is kept for what has to be written to work off a backlog: a log as
// long as it may get before it is brought into the file, and the pages that this adds
// to the file; and so many pages where the program limits their number.
const (
	mostReserve  = 16 << 20
	leastReserve = 1 << 20
	reservePages = 64
)

// reserve is room that accepts cannot take: a file beside the database that is given
// up when a handler's outcome finds no other, and pages of the number to which the
// program limits the file. Nothing is accepted from then on until there is a reserve
// again.
type reserve struct {
	path  string // of the file
	log   string // the write-ahead log, which it has to be as long as
	pages int64  // what the program limits the file to
	spent atomic.Bool
	told  bool // that it is
}

// isFull reports an error of a disk without room. It is known by its words, which
// are those of SQLite, as there may be any driver.
func isFull(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "disk is full") || strings.Contains(err.Error(), "disk I/O error"))
}

// allocate has the file take up room: as much as the log may need, and no more than
// half of what there is. It fails with [ErrFull] if that is too little.
func (r *reserve) allocate() (err error) {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return ErrFull
	case err != nil:
		return fmt.Errorf("sqlinbox: reserve: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	least := int64(leastReserve)
	if info, err := os.Stat(r.log); err == nil {
		least = max(least, min(info.Size(), mostReserve))
	}
	if info, err := f.Stat(); err == nil && info.Size() >= least {
		return nil
	}
	size := int64(0)
	for size < 2*mostReserve && extend(f, size, leastReserve) == nil {
		size += leastReserve
	}
	if size /= 2; size < least {
		size = 0
		err = ErrFull
	}
	return errors.Join(err, f.Truncate(size))
}

// extend makes a file longer, without holes.
func extend(f *os.File, from, by int64) error {
	if err := fallocate(f, from, by); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	_, err := f.WriteAt(make([]byte, by), from)
	return err
}

// limit limits the number of pages to what accepts may use, or to what there may be
// at all.
func (r *reserve) limit(conn *sql.Conn, all bool) error {
	n := r.pages
	if !all {
		n -= reservePages
	}
	_, err := conn.ExecContext(context.Background(), fmt.Sprintf("PRAGMA max_page_count = %d", n))
	return err
}

// spend gives the reserve up, and reports whether there was one. It is the writer
// that calls it.
func (i *Inbox) spend(t *tx) bool {
	if i.reserve.spent.Swap(true) {
		return false
	}
	notify(i.freed) // has the upkeep try to make a new one
	return errors.Join(os.Truncate(i.reserve.path, 0), i.reserve.limit(t.conn, true)) == nil
}

// restore makes a new reserve, if it was spent and there is room for it by now.
func (i *Inbox) restore() error {
	if !i.reserve.spent.Load() {
		return nil
	}
	if !i.reserve.told {
		i.reserve.told = true
		i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelError, "webhook inbox is out of room and accepts nothing")
	}
	if err := i.writer.truncate(); err != nil {
		return err
	}
	unused, err := valueOf(context.Background(), i.writer.doLazily, func(t *tx) (unused int64, err error) {
		var pages, mode int64
		if err := pragmas(t, map[string]*int64{"auto_vacuum": &mode, "freelist_count": &unused, "page_count": &pages}); err != nil {
			return 0, err
		}
		if unused+i.reserve.pages-pages < 2*reservePages {
			return 0, ErrFull
		}
		return unused, i.reserve.limit(t.conn, false)
	})
	if err != nil {
		return err
	}
	// A file that cannot shrink has its reserve in itself.
	if err := i.reserve.allocate(); err != nil && unused < mostReserve/4096 {
		return err
	}
	i.reserve.told = false
	i.reserve.spent.Store(false)
	i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelInfo, "webhook inbox has room again")
	return nil
}
