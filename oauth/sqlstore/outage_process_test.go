package sqlstore_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// TestOutageProcess is no test but what the processes of TestProcessesOutliveOutages
// run: an integrator's server, which takes its tasks from its input.
func TestOutageProcess(t *testing.T) { //nolint:paralleltest // runs in a separate process
	text := os.Getenv(outageProcess)
	if text == "" {
		return
	}
	var order outageOrder
	require.NoError(t, json.Unmarshal([]byte(text), &order))
	db, err := sql.Open("pgx", order.Source)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	store, err := order.store(db)
	require.NoError(t, err)
	s := &outageServer{T: t, users: order.Users, reported: map[string]bool{}}
	s.accounts, err = accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: order.Site, ClientID: order.ClientID, ClientSecret: dispensary.Secret(order.ClientSecret), RedirectURL: order.RedirectURL,
		}},
		Tokens: tokens.Config{Store: store, Observers: []tokens.Observer{{Event: s.note}}},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var keeping sync.WaitGroup
	answer := json.NewEncoder(os.Stdout)
	require.NoError(t, answer.Encode(outageReport{}))
	for tasks := bufio.NewScanner(os.Stdin); tasks.Scan(); {
		task, length, _ := strings.Cut(tasks.Text(), " ")
		switch task {
		case "work":
			d, err := time.ParseDuration(length)
			require.NoError(t, err)
			keeping.Go(func() { assert.NoError(t, s.accounts.KeepFresh(ctx, tokens.KeepFreshPolicy{})) })
			require.NoError(t, answer.Encode(s.work(d)))
		case "recover":
			require.NoError(t, answer.Encode(s.recover()))
		case "end":
			stop()
			keeping.Wait()
			require.NoError(t, s.accounts.Close(t.Context()))
			require.NoError(t, db.Close())
			return
		}
	}
}

// outageServer serves all users, as each process does.
type outageServer struct {
	*testing.T
	accounts *accounts.Accounts
	users    int

	mu       sync.Mutex
	reported map[string]bool
}

func (s *outageServer) note(_ context.Context, e tokens.Event) {
	if e, ok := e.(tokens.MustReauthorize); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reported[e.Key.User] = true
	}
}

func (s *outageServer) call(user int) error {
	client, err := s.accounts.Client(s.Context(), userName(user))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	_, err = client.Clinic.Get(ctx)
	return err
}

// work calls for every user again and again until the time is up, with fifty calls at
// a time.
func (s *outageServer) work(length time.Duration) outageReport {
	var calls, failed atomic.Int64
	ctx, cancel := context.WithTimeout(s.Context(), length)
	defer cancel()
	var working sync.WaitGroup
	for range 50 {
		working.Go(func() {
			for ctx.Err() == nil {
				calls.Add(1)
				if s.call(rand.IntN(s.users)) != nil {
					failed.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(length/100 + rand.N(length/50)):
				}
			}
		})
	}
	working.Wait()
	return outageReport{Calls: int(calls.Load()), Failed: int(failed.Load())}
}

// recover calls for every user until it works, or the user has to authorize again:
// for a quarter of an hour at most.
func (s *outageServer) recover() outageReport {
	const patience = 15 * time.Minute
	began := time.Now()
	var report outageReport
	users := make(chan int, s.users)
	for user := range s.users {
		users <- user
	}
	close(users)
	var mu sync.Mutex
	var working sync.WaitGroup
	for range 50 {
		working.Go(func() {
			for user := range users {
				err := s.call(user)
				for err != nil && !errors.Is(err, dispensary.ErrReauthorize) && time.Since(began) < patience {
					time.Sleep(2 * time.Second)
					err = s.call(user)
				}
				mu.Lock()
				if err != nil {
					report.Broken = append(report.Broken, userName(user))
				} else {
					report.Slowest = max(report.Slowest, time.Since(began))
				}
				mu.Unlock()
			}
		})
	}
	working.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.reported {
		report.Reported = append(report.Reported, name)
	}
	return report
}
