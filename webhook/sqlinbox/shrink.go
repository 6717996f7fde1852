package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// How the file gives back what a burst has left behind.
const (
	shrinkStep  = 128         // pages are given back in a transaction, which takes milliseconds
	shrinkPause = time.Second // and then it does not look for a while
)

// kept is how many unused pages of a file of so many pages are not worth giving
// back: the next events need them.
func kept(pages int64) int64 { return 256 + pages/32 }

// shrink gives unused pages at the end of the file back to the disk, whenever
// something was deleted and the writer has nothing else to do.
func (i *Inbox) shrink() {
	for {
		select {
		case <-i.freed:
		case <-i.life.Stopping():
			return
		}
		err := i.giveBack()
		if errors.Is(err, ErrReplaced) {
			return
		}
		if err != nil && !i.life.Stopped() {
			i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelWarn, "webhook inbox cannot shrink", slog.String("reason", err.Error()))
		}
		pause := time.NewTimer(shrinkPause)
		select {
		case <-pause.C:
		case <-i.life.Stopping():
		}
		pause.Stop()
	}
}

// giveBack gives back all that is not worth keeping, unless the database is one
// that does not move pages, which is decided when it is made.
func (i *Inbox) giveBack() error {
	for began := false; !i.life.Stopped(); began = true {
		more, err := valueOf(context.Background(), i.writer.doIdly, vacuum)
		if err != nil {
			return err
		}
		if !more {
			if began {
				return i.writer.checkpoint() // which cuts the file off
			}
			return nil
		}
	}
	return nil
}

// vacuum moves some pages from the end of the file to where it is unused, and
// reports whether there was any need to.
func vacuum(t *tx) (bool, error) {
	var mode, unused, pages int64
	if err := pragmas(t, map[string]*int64{"auto_vacuum": &mode, "freelist_count": &unused, "page_count": &pages}); err != nil {
		return false, err
	}
	const incremental = 2
	n := min(unused-kept(pages), shrinkStep)
	if mode != incremental || n <= 0 {
		return false, nil
	}
	// It gives back one page for each step of the statement.
	return true, t.each(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", n), nil, func(*sql.Rows) error { return nil })
}

// pragmas reads some numbers of the database.
func pragmas(t *tx, into map[string]*int64) error {
	for name, n := range into {
		if _, err := t.first("PRAGMA "+name, nil, n); err != nil {
			return err
		}
	}
	return nil
}

// enableShrinking makes an empty file one that can give pages back, which has to be
// said before anything else, or has a file that is not one written anew.
func enableShrinking(ctx context.Context, db *sql.DB, empty bool) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var mode, pages int
	err = errors.Join(
		conn.QueryRowContext(ctx, "PRAGMA auto_vacuum").Scan(&mode),
		conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages),
	)
	if err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	if mode != 0 || empty != (pages == 0) {
		return nil
	}
	steps := []string{"PRAGMA auto_vacuum = INCREMENTAL", "VACUUM"}
	if empty {
		steps[1] = "PRAGMA journal_mode = WAL" // which writes the first page
	}
	for _, step := range steps {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("sqlinbox: %w", err)
		}
	}
	return nil
}
