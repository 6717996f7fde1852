package watermillinbox_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/inboxtest"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/sqlkv"
)

// rig is where the inboxes of a test live.
type rig struct {
	topic  string
	keys   seal.AEAD
	store  func() watermillinbox.Store
	pubsub func() (message.Publisher, message.Subscriber, error)
	stored func() content

	published *recorder
	closers   []func() error
}

func newRig(t testing.TB, r rig) *rig {
	t.Helper()
	r.keys, r.published = receivertest.KeyRing(t), &recorder{}
	t.Cleanup(func() {
		for _, closer := range r.closers {
			_ = closer()
		}
	})
	return &r
}

// lease is long enough for a busy machine, and short enough to be waited for.
const lease = 4 * time.Second

// config is that of an inbox with short leases, and connections of its own.
func (r *rig) config(work webhook.Work) (watermillinbox.Config, error) {
	publisher, subscriber, err := r.pubsub()
	if err != nil {
		return watermillinbox.Config{}, err
	}
	r.closers = append(r.closers, subscriber.Close, publisher.Close)
	r.published.to(publisher) // of those of several replicas any will do
	return watermillinbox.Config{
		Work: work, Seal: r.keys, Store: &patched{Store: r.store()}, Topic: r.topic,
		Publisher: r.published, Subscriber: subscriber, Subscriptions: 2,
		Lease: lease, Sweep: 200 * time.Millisecond,
	}, nil
}

// open opens an inbox for the suite.
func (r *rig) open(work webhook.Work) (webhook.Engine, error) { return r.openSealed(work, r.keys) }

func (r *rig) openSealed(work webhook.Work, aead seal.AEAD) (webhook.Engine, error) {
	config, err := r.config(work)
	if err != nil {
		return nil, err
	}
	config.Seal = aead
	inbox, err := watermillinbox.New(context.Background(), config)
	if err != nil {
		return nil, err
	}
	return inbox, nil
}

func (r *rig) topicName() string { return cmp.Or(r.topic, watermillinbox.DefaultTopic) }

// start opens an inbox which hears of events from its broker only, and closes it
// with the test. It returns every attempt.
func (r *rig) start(t testing.TB, handle webhook.HandlerFunc, changes ...func(*watermillinbox.Config)) (*watermillinbox.Inbox, *patched, <-chan webhook.Attempt) {
	t.Helper()
	made := make(chan webhook.Attempt, 1000)
	config, err := r.config(webhook.Work{Handle: handle, Observe: func(_ context.Context, a webhook.Attempt) { made <- a }})
	require.NoError(t, err)
	config.Sweep = time.Hour
	for _, change := range changes {
		change(&config)
	}
	inbox, err := watermillinbox.New(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, inbox.Close(ctx))
	})
	return inbox, config.Store.(*patched), made
}

// brokers are the rigs that there are, by name.
var brokers = map[string]func(testing.TB) *rig{"laptop": onALaptop, "nats": onNATS, "rabbitmq": onRabbitMQ, "redis": onRedis}

// TestInboxKeepsTheContract runs the suite on each of them.
func TestInboxKeepsTheContract(t *testing.T) {
	t.Parallel()
	for name, broker := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_ = broker(t) // skips all at once where there is no server
			inboxtest.Run(t, func(t *testing.T) inboxtest.Storage {
				r := broker(t)
				return inboxtest.Storage{
					Durable: true, Shared: true, Ordered: true,
					Open:       r.open,
					OpenSealed: r.openSealed,
					Crash:      func(e webhook.Engine) { e.(*watermillinbox.Inbox).Crash() },
					Dump:       func(*testing.T) []byte { return append(r.stored().bytes(), r.published.all()...) },
				}
			})
		})
	}
}

// onALaptop needs no server: messages go through the memory of the process.
func onALaptop(t testing.TB) *rig {
	open, db, name := table(t, sqlkv.SQLite)
	store := open() // one for all, because it lets those who write take turns
	channel := gochannel.NewGoChannel(gochannel.Config{}, nil)
	return newRig(t, rig{
		store:  func() watermillinbox.Store { return store },
		stored: func() content { return rows(t, db, name) },
		pubsub: func() (message.Publisher, message.Subscriber, error) { return undying{channel}, undying{channel}, nil },
	})
}

func onNATS(t testing.TB) *rig {
	_, js := natsConn(t)
	topic := unique()
	natsTopic(t, js, topic)
	store := buckets(t, js, topic)
	return newRig(t, rig{
		topic:  topic,
		store:  func() watermillinbox.Store { return store },
		stored: func() content { return messages(t, js, topic) },
		pubsub: func() (message.Publisher, message.Subscriber, error) {
			return natsPubSub(address(t, natsVariable), topic)
		},
	})
}

func onRabbitMQ(t testing.TB) *rig {
	uri := address(t, rabbitVariable)
	r := onDatabase(t, sqlkv.PostgreSQL)
	rabbitTopic(t, uri, r.topic)
	r.pubsub = func() (message.Publisher, message.Subscriber, error) { return rabbitPubSub(uri) }
	return r
}

func onRedis(t testing.TB) *rig {
	url := address(t, redisVariable)
	r := onDatabase(t, sqlkv.MySQL)
	redisTopic(t, url, r.topic)
	r.pubsub = func() (message.Publisher, message.Subscriber, error) { return redisPubSub(url, r.topic) }
	return r
}

// onDatabase has a store, and no broker yet.
func onDatabase(t testing.TB, dialect sqlkv.Dialect) *rig {
	open, db, name := table(t, dialect)
	if _, benchmark := t.(*testing.B); benchmark {
		db.SetMaxOpenConns(16) // tests leave some to others
		db.SetMaxIdleConns(16)
	}
	return newRig(t, rig{
		topic:  name,
		store:  func() watermillinbox.Store { return open() },
		stored: func() content { return rows(t, db, name) },
	})
}

// undying is a channel that outlives those who close it, as brokers do.
type undying struct{ *gochannel.GoChannel }

func (undying) Close() error { return nil }

// content is everything that a store holds, as it is stored.
type content []watermillinbox.Entry

func (c content) bytes() (all []byte) {
	for _, e := range c {
		all = append(append(all, e.Key...), e.Value...)
	}
	return all
}

// rows returns all that is in a table.
func rows(t testing.TB, db *sql.DB, table string) (all content) {
	t.Helper()
	found, err := db.QueryContext(t.Context(), "SELECT k, value FROM "+table)
	require.NoError(t, err)
	for found.Next() {
		var e watermillinbox.Entry
		require.NoError(t, found.Scan(&e.Key, &e.Value))
		all = append(all, e)
	}
	require.NoError(t, found.Close())
	require.NoError(t, found.Err())
	return all
}

// messages returns all that is in the streams of a bucket.
func messages(t testing.TB, js jetstream.JetStream, bucket string) (all content) {
	t.Helper()
	for _, name := range []string{bucket, bucket + "_kept"} {
		stream, err := js.Stream(t.Context(), "KV_"+name)
		require.NoError(t, err)
		state := stream.CachedInfo().State
		for sequence := state.FirstSeq; sequence <= state.LastSeq; sequence++ {
			m, err := stream.GetMsg(t.Context(), sequence)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			require.NoError(t, err)
			all = append(all, watermillinbox.Entry{Key: strings.TrimPrefix(m.Subject, "$KV."+name+"."), Value: m.Data})
		}
	}
	return all
}
