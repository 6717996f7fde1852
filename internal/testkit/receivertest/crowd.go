package receivertest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
)

// Senders is the number of concurrent deliveries.
const Senders = 64

// Nothing is an inbox that stores nothing. It shows the cost of HTTP and the handler.
type Nothing struct{}

// Accept implements [webhook.Inbox].
func (Nothing) Accept(context.Context, webhook.Delivery) (receipt webhook.Receipt, err error) {
	return receipt, nil
}

// BenchmarkLonely measures accepts by a single sender.
func BenchmarkLonely(b *testing.B, inbox webhook.Inbox) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		_, err := inbox.Accept(b.Context(), NewDelivery())
		require.NoError(b, err)
	}
}

// BenchmarkHTTP measures accepts through HTTP, including the signature, with [Senders]
// concurrent deliveries. It reports accepts per second and the 99th percentile of the request
// duration in milliseconds.
func BenchmarkHTTP(b *testing.B, inbox webhook.Inbox) {
	b.Helper()
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: Sandbox, Secrets: []api.Secret{api.NewSecret(Secret)}, Challenge: api.NewSecret(Challenge), Inbox: inbox, AcceptTimeout: 10 * time.Second,
	})
	require.NoError(b, err)
	server := httptest.NewServer(handler)
	defer server.Close()
	lines := make([]*connection, Senders)
	for n := range lines {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(b, err)
		defer func() { _ = conn.Close() }()
		lines[n] = &connection{Conn: conn, reader: bufio.NewReader(conn)}
	}
	const first = 4 * Senders // warm up pools and caches
	requests := rawRequests(b, first+b.N)
	send := func(requests [][]byte) {
		together(len(requests), func(sender, n int) bool { return failed(b, lines[sender].exchange(requests[n])) })
	}
	send(requests[:first])
	for _, line := range lines {
		line.took = line.took[:0]
	}
	b.ResetTimer()
	send(requests[first:])
	b.StopTimer()
	var all []time.Duration
	for _, line := range lines {
		all = append(all, line.took...)
	}
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accepts/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// together calls do for every index below n from all senders concurrently. A sender stops after
// do reports a failure.
func together(n int, do func(sender, n int) (failed bool)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for sender := range Senders {
		group.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if do(sender, i-1) {
					return
				}
			}
		})
	}
	group.Wait()
}

func failed(b *testing.B, err error) bool {
	if err != nil {
		b.Error(err)
	}
	return err != nil
}

// rawRequests returns n encoded requests. Client and server share the machine, so encoding them
// in advance keeps this work out of the measurement.
func rawRequests(b *testing.B, n int) [][]byte {
	b.Helper()
	all := make([][]byte, n)
	for i := range all {
		request, err := Request("http://localhost/webhooks", NewDelivery().Body)
		require.NoError(b, err)
		var raw bytes.Buffer
		require.NoError(b, request.Write(&raw))
		all[i] = raw.Bytes()
	}
	return all
}

// connection is the connection of one sender. took lists the duration of each exchange.
type connection struct {
	net.Conn
	reader *bufio.Reader
	took   []time.Duration
}

// exchange sends a request and reads the response. Its body must be the challenge.
func (c *connection) exchange(request []byte) error {
	begin := time.Now()
	if _, err := c.Write(request); err != nil {
		return err
	}
	status, err := c.reader.ReadString('\n')
	if err != nil || status != "HTTP/1.1 200 OK\r\n" {
		return fmt.Errorf("response %q: %w", status, err)
	}
	for line := ""; line != "\r\n"; {
		if line, err = c.reader.ReadString('\n'); err != nil {
			return err
		}
	}
	_, err = c.reader.Discard(len(`{"challenge":""}`) + len(Challenge))
	c.took = append(c.took, time.Since(begin))
	return err
}
