package natskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
)

// DefaultBucket is the name of the bucket.
const DefaultBucket = "dispensary_inbox"

// Config says which buckets a store has.
type Config struct {
	// Bucket is the name of the bucket, and with "_kept" behind it that of the
	// other one; empty means [DefaultBucket]. Letters, digits, '-' and '_'. Each
	// inbox needs its own.
	Bucket string

	// Replicas is how many servers of a cluster keep a copy; 0 means one. It is
	// for buckets that are made: those that are there stay as they are.
	Replicas int
}

var bucketForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Store is a [watermillinbox.Store] in two buckets. It is safe for concurrent use.
type Store struct {
	js     jetstream.JetStream
	listed bucket
	kept   bucket
}

var _ watermillinbox.Store = (*Store)(nil)

// bucket is a stream that keeps the last message of each subject.
type bucket struct {
	stream jetstream.Stream
	prefix string // of subjects
}

// Open opens the buckets, which are made if they are not there. The connection
// stays the caller's. It fails with [api.ArgumentError], and for buckets that
// something else has made.
func Open(ctx context.Context, js jetstream.JetStream, c Config) (*Store, error) {
	name := cmp.Or(c.Bucket, DefaultBucket)
	switch {
	case js == nil:
		return nil, &api.ArgumentError{Field: "natskv.Open js", Reason: "is nil"}
	case !bucketForm.MatchString(name):
		return nil, &api.ArgumentError{Field: "natskv.Config.Bucket", Reason: "must be letters, digits, '-' and '_', 64 at most"}
	case c.Replicas < 0:
		return nil, &api.ArgumentError{Field: "natskv.Config.Replicas", Reason: "is negative"}
	}
	s := &Store{js: js}
	var err error
	if s.listed, err = open(ctx, js, name, c.Replicas); err != nil {
		return nil, err
	}
	s.kept, err = open(ctx, js, name+"_kept", c.Replicas)
	return s, err
}

// open makes the stream of a bucket, as a bucket is made, except that messages can
// be deleted: a key is deleted by deleting the message of its revision, which is
// compared and leaves nothing behind.
func open(ctx context.Context, js jetstream.JetStream, name string, replicas int) (b bucket, err error) {
	b.prefix = "$KV." + name + "."
	b.stream, err = js.Stream(ctx, "KV_"+name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		b.stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: "KV_" + name, Subjects: []string{b.prefix + ">"}, Description: "webhook inbox",
			MaxMsgsPerSubject: 1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgs: -1, MaxConsumers: -1,
			Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
			AllowRollup: true, AllowDirect: true,
		})
	}
	if err != nil {
		return b, fmt.Errorf("natskv: bucket %s: %w", name, err)
	}
	switch c := b.stream.CachedInfo().Config; {
	case c.DenyDelete:
		return b, fmt.Errorf("natskv: bucket %s forbids to delete messages: it was not made by this package", name)
	case c.MaxMsgsPerSubject != 1 || c.MaxAge != 0 || c.Storage != jetstream.FileStorage:
		return b, fmt.Errorf("natskv: bucket %s keeps a history, or in memory, or for some time only: it was not made by this package", name)
	}
	return b, nil
}

// of returns the bucket that a key is in.
func (s *Store) of(key string) bucket {
	if strings.HasPrefix(key, watermillinbox.Kept) {
		return s.kept
	}
	return s.listed
}

// pastHeader marks the message of an entry that is past.
const pastHeader = "Dispensary-Past"

// put writes an entry whose revision is the given one; 0 if it is not there.
func (s *Store) put(ctx context.Context, e watermillinbox.Entry, revision uint64) (uint64, error) {
	b := s.of(e.Key)
	m := nats.NewMsg(b.prefix + e.Key)
	m.Data = e.Value
	if e.Past {
		m.Header.Set(pastHeader, "1")
	}
	if limit := s.js.Conn().MaxPayload(); int64(len(m.Data))+1024 > limit && limit > 0 {
		return 0, fmt.Errorf("natskv: an entry of %d bytes does not fit in a message: max_payload of the server is %d", len(m.Data), limit)
	}
	ack, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// isConflict reports an answer that says that the revision is another one.
func isConflict(err error) bool {
	var refused *jetstream.APIError
	if !errors.As(err, &refused) {
		return false
	}
	const wrongLastSequenceConstant = 10164
	return refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == wrongLastSequenceConstant
}

// Create implements [watermillinbox.Store].
func (s *Store) Create(ctx context.Context, entries ...watermillinbox.Entry) (revisions []uint64, err error) {
	for _, e := range entries {
		revision, failed := s.put(ctx, e, 0)
		switch {
		case isConflict(failed):
			err = watermillinbox.ErrExists
		case failed != nil:
			return nil, fmt.Errorf("natskv: create: %w", failed)
		}
		revisions = append(revisions, revision)
	}
	return revisions, err
}

// Update implements [watermillinbox.Store].
func (s *Store) Update(ctx context.Context, e watermillinbox.Entry) (uint64, error) {
	revision, err := s.put(ctx, e, e.Revision)
	switch {
	case isConflict(err):
		return 0, watermillinbox.ErrConflict
	case err != nil:
		return 0, fmt.Errorf("natskv: update: %w", err)
	}
	return revision, nil
}

// width is how many requests of one call are under way at a time.
const width = 32

// each calls do for every index below n, several at a time, and returns the first
// error.
func each(n int, do func(int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	slots := make(chan struct{}, width)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			errs[i] = do(i)
			<-slots
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// Get implements [watermillinbox.Store].
func (s *Store) Get(ctx context.Context, keys ...string) (map[string]watermillinbox.Entry, error) {
	entries := make([]watermillinbox.Entry, len(keys))
	err := each(len(keys), func(i int) error {
		b := s.of(keys[i])
		m, err := b.stream.GetLastMsgForSubject(ctx, b.prefix+keys[i])
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			entries[i] = watermillinbox.Entry{Key: keys[i], Value: m.Data, Revision: m.Sequence}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("natskv: get: %w", err)
	}
	found := make(map[string]watermillinbox.Entry, len(keys))
	for _, e := range entries {
		if e.Revision != 0 {
			found[e.Key] = e
		}
	}
	return found, nil
}

// Delete implements [watermillinbox.Store].
func (s *Store) Delete(ctx context.Context, entries ...watermillinbox.Entry) error {
	return each(len(entries), func(i int) error {
		return s.of(entries[i].Key).delete(ctx, entries[i].Revision)
	})
}

// delete deletes the message of a revision. There is at most one of each key, so
// one that was replaced is not there.
func (b bucket) delete(ctx context.Context, revision uint64) error {
	err := b.stream.DeleteMsg(ctx, revision)
	if err == nil {
		return nil
	}
	// The client does not pass on why it was refused.
	if _, missing := b.stream.GetMsg(ctx, revision); errors.Is(missing, jetstream.ErrMsgNotFound) {
		return watermillinbox.ErrConflict
	}
	return fmt.Errorf("natskv: delete: %w", err)
}

// List implements [watermillinbox.Store].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		info, err := s.listed.stream.Info(ctx, jetstream.WithSubjectFilter(s.listed.prefix+prefix+">"))
		if err != nil {
			yield("", fmt.Errorf("natskv: list: %w", err))
			return
		}
		for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
			if !yield(strings.TrimPrefix(subject, s.listed.prefix), nil) {
				return
			}
		}
	}
}

// Now implements [watermillinbox.Store].
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	info, err := s.listed.stream.Info(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("natskv: now: %w", err)
	}
	if !info.TimeStamp.IsZero() {
		return info.TimeStamp, nil
	}
	// Servers before 2.10 do not tell, but for the time of a message.
	m := nats.NewMsg(s.listed.prefix + "clock")
	ack, err := s.js.PublishMsg(ctx, m)
	if err != nil {
		return time.Time{}, fmt.Errorf("natskv: now: %w", err)
	}
	written, err := s.listed.stream.GetLastMsgForSubject(ctx, m.Subject)
	if err != nil || written.Sequence < ack.Sequence {
		return time.Time{}, fmt.Errorf("natskv: now: %w", cmp.Or(err, errLagging))
	}
	return written.Time, nil
}

// errLagging: what was written cannot be read yet.
var errLagging = errors.New("the replica that answers is behind")

// Format prints the type only.
func (s *Store) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "natskv.Store") }
