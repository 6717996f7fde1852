package sqlinbox_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// BenchmarkAcceptHTTP measures durable accepts through HTTP, signature and all,
// with 64 deliveries under way: beside what a table costs where every request
// commits its own row, and what HTTP costs without any storage. It reports
// accepts per second and the 99th percentile of a request in milliseconds.
func BenchmarkAcceptHTTP(b *testing.B) {
	b.Run("nothing stored", func(b *testing.B) { acceptHTTP(b, nothing{}) })
	b.Run("lone commits", func(b *testing.B) { acceptHTTP(b, newLoneTable(b)) })
	b.Run("Inbox", func(b *testing.B) { acceptHTTP(b, newBenchInbox(b, nil)) })
	b.Run("Inbox in order", func(b *testing.B) { acceptHTTP(b, newBenchInbox(b, webhook.ByObject)) })
}

type nothing struct{}

func (nothing) Accept(context.Context, webhook.Delivery) (webhook.Receipt, error) {
	return webhook.Receipt{}, nil
}

// loneTable is what one writes by hand: a table, and a statement for each event.
type loneTable struct{ insert *sql.Stmt }

func newLoneTable(b *testing.B) loneTable {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "lone.db")+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // SQLite has one writer; more connections only collide
	_, err = db.ExecContext(b.Context(), "CREATE TABLE inbox (key TEXT PRIMARY KEY, body BLOB NOT NULL, state INTEGER NOT NULL)")
	require.NoError(b, err)
	insert, err := db.PrepareContext(b.Context(), "INSERT INTO inbox (key, body, state) VALUES (?, ?, 0) ON CONFLICT DO NOTHING")
	require.NoError(b, err)
	return loneTable{insert}
}

func (l loneTable) Accept(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	result, err := l.insert.ExecContext(context.Background(), d.Key.String(), d.Body)
	if err != nil {
		return webhook.Receipt{}, err
	}
	n, err := result.RowsAffected()
	return webhook.Receipt{Duplicate: n == 0}, err
}

// newBenchInbox makes an inbox whose workers are kept busy by one event each, so
// that accepting is all that is measured.
func newBenchInbox(b *testing.B, order webhook.SubjectFunc) *sqlinbox.Inbox {
	b.Helper()
	inbox, err := sqlinbox.Open(filepath.Join(b.TempDir(), "inbox.db"), sqlinbox.Config{
		Seal: ring(b),
		Work: webhook.Work{
			Workers: 1, Order: order, HandlerTimeout: time.Hour,
			Handle: func(ctx context.Context, _ events.Event) error {
				<-ctx.Done()
				return ctx.Err()
			},
		},
	})
	require.NoError(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = inbox.Close(ctx)
	})
	return inbox
}

// benchNumber makes every event of a run of the program another one.
var benchNumber atomic.Int64

func acceptHTTP(b *testing.B, inbox webhook.Inbox) {
	handler, err := webhook.NewHandler(webhook.Config{
		Environment: sandbox, Secrets: []api.Secret{secret}, Challenge: challenge, Inbox: inbox, AcceptTimeout: 10 * time.Second,
	})
	require.NoError(b, err)
	server := httptest.NewServer(handler)
	defer server.Close()
	requests := rawRequests(b, b.N+4*senders)
	took := make([][]time.Duration, senders)
	crowd := func(requests [][]byte) {
		var next atomic.Int64
		var group sync.WaitGroup
		for sender := range senders {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(b, err)
			defer func() { _ = conn.Close() }()
			group.Go(func() {
				reader := bufio.NewReader(conn)
				for n := next.Add(1); n <= int64(len(requests)); n = next.Add(1) {
					begin := time.Now()
					if err := exchange(conn, reader, requests[n-1]); err != nil {
						b.Error(err)
						return
					}
					took[sender] = append(took[sender], time.Since(begin))
				}
			})
		}
		group.Wait()
	}
	crowd(requests[:4*senders]) // pools and caches
	took = make([][]time.Duration, senders)
	b.ResetTimer()
	crowd(requests[4*senders:])
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accepts/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// rawRequests makes requests ready to be sent: client and server share the
// machine, and what the client does is not to be measured.
func rawRequests(b *testing.B, n int) [][]byte {
	b.Helper()
	all := make([][]byte, n)
	for i := range all {
		request, err := signed("http://localhost/webhooks", body(int(benchNumber.Add(1)), "in_1"))
		require.NoError(b, err)
		var raw bytes.Buffer
		require.NoError(b, request.Write(&raw))
		all[i] = raw.Bytes()
	}
	return all
}

// exchange sends a request and reads the answer, whose body is the challenge.
func exchange(conn net.Conn, reader *bufio.Reader, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	status, err := reader.ReadString('\n')
	if err != nil || status != "HTTP/1.1 200 OK\r\n" {
		return fmt.Errorf("answered %q, %w", status, err)
	}
	for line := ""; line != "\r\n"; {
		if line, err = reader.ReadString('\n'); err != nil {
			return err
		}
	}
	_, err = reader.Discard(len(`{"challenge":""}`) + len(challenge))
	return err
}

// BenchmarkAccept measures one accept after the other: what a lonely delivery
// waits for.
func BenchmarkAccept(b *testing.B) {
	for name, inbox := range map[string]webhook.Inbox{"lone commits": newLoneTable(b), "Inbox": newBenchInbox(b, nil)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := inbox.Accept(b.Context(), benchDelivery())
				require.NoError(b, err)
			}
		})
	}
}

func benchDelivery() webhook.Delivery {
	n := int(benchNumber.Add(1))
	return webhook.Delivery{
		Key:  webhook.Key{Environment: sandbox, EventID: fmt.Sprint("evt_", n), IntegrationID: "in_1"},
		Type: events.PatientUpdated, ReceivedAt: time.Now(), CreatedAt: time.Now(), Body: body(n, "in_1"),
	}
}

// BenchmarkHandle measures how fast a backlog is worked off by handlers that do
// nothing.
func BenchmarkHandle(b *testing.B) {
	for _, workers := range []int{webhook.DefaultWorkers, 64} {
		b.Run(fmt.Sprint(workers, " workers"), func(b *testing.B) { handleBacklog(b, workers) })
	}
}

func handleBacklog(b *testing.B, workers int) {
	var handled atomic.Int64
	total := int64(b.N)
	done := make(chan struct{})
	path, keys := filepath.Join(b.TempDir(), "inbox.db"), ring(b)
	work := webhook.Work{
		Workers: workers, Order: webhook.ByObject,
		Handle: func(context.Context, events.Event) error { return nil },
		Observe: func(context.Context, webhook.Attempt) {
			if handled.Add(1) == total {
				close(done)
			}
		},
	}
	waiting := work
	waiting.Workers, waiting.Handle, waiting.Observe = 1, func(ctx context.Context, _ events.Event) error {
		<-ctx.Done()
		return ctx.Err()
	}, nil
	inbox, err := sqlinbox.Open(path, sqlinbox.Config{Work: waiting, Seal: keys})
	require.NoError(b, err)
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			for i := 0; i < b.N/senders; i++ {
				_, _ = inbox.Accept(context.Background(), benchDelivery())
			}
		})
	}
	group.Wait()
	for range b.N % senders {
		_, _ = inbox.Accept(context.Background(), benchDelivery())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(b, inbox.Close(ctx))
	b.ResetTimer()
	inbox, err = sqlinbox.Open(path, sqlinbox.Config{Work: work, Seal: keys})
	require.NoError(b, err)
	<-done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	require.NoError(b, inbox.Close(context.Background()))
}
