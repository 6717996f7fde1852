package catalogsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"

	"github.com/dispensary-go/dispensary/api"
)

// maxSample is the number of products whose absence a walk confirms before it accepts that the
// list became much shorter. If one in ten of the missed products were still there, 50 would
// overlook it in 1 of 200 cases. An overlooked product is missing, but not gone.
const maxSample = 50

// shrunk ends a walk that misses too many products. The first such walk after a complete one
// fails. A later one succeeds if it misses the same products, up to most others, and if the
// platform has none of a sample of them by its id.
func (w *walker) shrunk(ctx context.Context, end Walk, gone []string, most int) (Walk, error) {
	store := w.config.Store
	missed, err := store.Unlisted(ctx, w.walk, Present, math.MaxInt)
	if err != nil {
		return Walk{}, err
	}
	refusal := fmt.Errorf("%w: %d products are missing, %d are listed", ErrTooManyMissing, len(missed), end.Total)
	if w.walk.Refused > 0 {
		reason, err := w.confirmMissed(ctx, len(missed)+len(gone)-most)
		if err != nil {
			return Walk{}, err
		}
		if reason == nil {
			w.config.Logger.LogAttrs(ctx, slog.LevelWarn, "the list became much shorter", slog.Int("missing", len(missed)), slog.Int("listed", end.Total))
			end.Requests = w.before + int(w.requests.Load())
			return store.Complete(ctx, end, gone, math.MaxInt)
		}
		refusal = fmt.Errorf("%w: %w", refusal, reason)
	}
	w.walk.Refused++
	w.walk.Requests = w.before + int(w.requests.Load())
	if _, err := store.SavePage(ctx, w.walk, nil); err != nil {
		return Walk{}, err
	}
	return Walk{}, refusal
}

// confirmMissed reads a sample of the products that no walk has seen since the last complete
// one, of which there must be at least least. A reason means that the list is probably wrong.
func (w *walker) confirmMissed(ctx context.Context, least int) (reason, err error) {
	state, err := w.config.Store.State(ctx)
	if err != nil {
		return nil, err
	}
	since := Walk{Generation: state.Complete.Generation + 1, StartedAt: w.walk.StartedAt}
	ids, err := w.config.Store.Unlisted(ctx, since, Present, math.MaxInt)
	if err != nil {
		return nil, err
	}
	if len(ids) < least {
		return errors.New("the walk before missed others"), nil
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids[:min(len(ids), maxSample)] {
		w.requests.Add(1)
		switch err := w.fetch(ctx, id); {
		case errors.Is(err, api.ErrNotFound):
		case errors.As(err, new(productError)):
			return fmt.Errorf("product %s was not confirmed: %w", id, err), nil
		case err != nil:
			return nil, err
		default:
			return fmt.Errorf("the platform has product %s", id), nil
		}
	}
	return nil, nil
}
