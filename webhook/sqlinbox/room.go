package sqlinbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"
)

// defaultMinFreeBytes is the default of [Config.MinFreeBytes].
const defaultMinFreeBytes = 64 << 20

const (
	// minFreePages is the number of pages reserved for outcomes if PRAGMA max_page_count
	// limits the database.
	minFreePages = 64

	// noPageLimit is the default of PRAGMA max_page_count in old versions of SQLite. New
	// versions have a larger one.
	noPageLimit = 1<<30 - 1

	// defaultCheckpoint is the default of PRAGMA wal_autocheckpoint.
	defaultCheckpoint = 1000
)

// room rejects accepts while the disk has little free space, so that the inbox can still
// record outcomes of stored events. Only the writer's goroutine uses it.
type room struct {
	folder   string
	min      int64 // bytes
	free     func(folder string) (bytes int64, known bool)
	maxPages int64 // PRAGMA max_page_count, or 0 without a limit
	pageSize int64
	logger   *slog.Logger

	full      bool // result of the last check
	truncated time.Time
}

// newRoom reads the limits of the database that conn has open.
func newRoom(ctx context.Context, conn *sql.Conn, path string, c Config, logger *slog.Logger) (*room, error) {
	r := &room{folder: filepath.Dir(path), min: cmp.Or(c.MinFreeBytes, defaultMinFreeBytes), free: c.free, logger: logger}
	err := errors.Join(
		conn.QueryRowContext(ctx, "PRAGMA max_page_count").Scan(&r.maxPages),
		conn.QueryRowContext(ctx, "PRAGMA page_size").Scan(&r.pageSize),
	)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	if r.maxPages >= noPageLimit {
		r.maxPages = 0
	}
	// Outcomes need free space until the log is copied into the database.
	if most := r.min / 8 / r.pageSize; r.min > 0 && most < defaultCheckpoint {
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", max(most, 1))); err != nil {
			return nil, fmt.Errorf("sqlinbox: %w", err)
		}
	}
	return r, nil
}

// check fails with [ErrFull] if there is not enough space for accepts with this total size of
// bodies. Before it fails, it truncates the log, at most once a second.
func (r *room) check(t *tx, bytes int) error {
	err := r.measure(t, int64(bytes))
	if now := time.Now(); errors.Is(err, ErrFull) && now.Sub(r.truncated) >= time.Second {
		r.truncated = now
		if err = r.truncate(t.conn); err == nil {
			err = r.measure(t, int64(bytes))
		}
	}
	if full := errors.Is(err, ErrFull); full != r.full {
		r.full = full
		if full {
			r.logger.Error("webhook inbox rejects new events", slog.String("reason", err.Error()))
		} else {
			r.logger.Info("webhook inbox accepts new events again")
		}
	}
	return err
}

func (r *room) measure(t *tx, bytes int64) error {
	free, known := r.free(r.folder)
	enough := !known || free >= r.min
	if enough && r.maxPages == 0 {
		return nil
	}
	var pages, unused int64
	for pragma, n := range map[string]*int64{"PRAGMA page_count": &pages, "PRAGMA freelist_count": &unused} {
		if _, err := t.first(pragma, nil, n); err != nil {
			return err
		}
	}
	// New events reuse these pages, so the database does not grow.
	if reusable := min(unused*r.pageSize, r.min/2); !enough && free+reusable < r.min {
		return fmt.Errorf("%w: %s has %d bytes free, less than MinFreeBytes = %d", ErrFull, r.folder, free, r.min)
	}
	if left := r.maxPages - pages + unused; r.maxPages > 0 && left < minFreePages+bytes/r.pageSize {
		return fmt.Errorf("%w: PRAGMA max_page_count leaves %d pages", ErrFull, left)
	}
	return nil
}

// truncate returns the space of the log to the disk. It does nothing while another connection
// reads the log.
func (r *room) truncate(conn *sql.Conn) (err error) {
	for _, statement := range []string{"PRAGMA busy_timeout = 0", "PRAGMA wal_checkpoint(TRUNCATE)", busyTimeout} {
		if _, failed := conn.ExecContext(context.Background(), statement); failed != nil {
			err = fmt.Errorf("sqlinbox: %w", failed)
		}
	}
	return err
}
