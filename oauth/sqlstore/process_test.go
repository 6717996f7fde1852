package sqlstore_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// serverVariable makes the test binary a replica: a separate process that does what an
// integrator's server does, and takes its tasks from its input.
const serverVariable = "DISPENSARY_TEST_REPLICA"

func TestMain(m *testing.M) {
	if order := os.Getenv(serverVariable); order != "" {
		if err := serve(order, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it would log every connection that a test cuts
	os.Exit(m.Run())
}

// order is what a replica is, as JSON in its environment.
type order struct {
	Name           string
	Dialect        sqlstore.Dialect
	Driver, Source string
	Connections    int // to the database
	Prefix         string
	Keys           string // of the ring
	Site           api.Site
	ClientID       string
	ClientSecret   string
	RedirectURL    string
	LeaseTTL       time.Duration
	Users          int
}

// task is what a replica is to do, as a line of JSON in its input. It answers with a
// [report].
type task struct {
	Do         string // "visit", "work" or "recover"
	Goroutines int
	Visits     int // of each user, by different goroutines
	Length     time.Duration
}

// report is what a replica has seen in one of its tasks.
type report struct {
	Calls, Failed int
	Failures      []string // the first of them
	Broken        []string // users whose calls did not work in the end
	Reported      []string // users for whom there was a MustReauthorize event, ever
	Slowest       time.Duration
}

// server is the program.
type server struct {
	order
	accounts *accounts.Accounts

	mu       sync.Mutex
	report   report
	reported map[string]bool
}

// serve says that it is ready, works, and ends with its input.
func serve(text string, in io.Reader, out io.Writer) error {
	s := &server{reported: map[string]bool{}}
	if err := json.Unmarshal([]byte(text), &s.order); err != nil {
		return err
	}
	db, err := s.open()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	answer := json.NewEncoder(out)
	if err := answer.Encode(s.report); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var keeping sync.WaitGroup
	var kept error
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var t task
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return err
		}
		s.report = report{}
		switch t.Do {
		case "visit":
			s.visit(t.Goroutines, t.Visits)
		case "work":
			keeping.Go(func() { kept = s.accounts.KeepFresh(ctx, tokens.KeepFreshPolicy{}) })
			s.work(t.Length)
		case "recover":
			s.recover()
		}
		if err := answer.Encode(s.report); err != nil {
			return err
		}
	}
	stop()
	keeping.Wait()
	return errors.Join(kept, s.accounts.Close(context.Background()))
}

func (s *server) open() (*sql.DB, error) {
	db, err := sql.Open(s.Driver, s.Source)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(s.Connections)
	db.SetMaxIdleConns(s.Connections)
	store, err := sealedOn(db, s.Dialect, s.Prefix, api.NewSecret(s.Keys))
	if err != nil {
		return nil, err
	}
	s.accounts, err = accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: s.Site, ClientID: s.ClientID, ClientSecret: api.NewSecret(s.ClientSecret), RedirectURL: s.RedirectURL, UserAgent: s.Name,
		}},
		Tokens: tokens.Config{Store: store, LeaseTTL: s.LeaseTTL, Observers: []tokens.Observer{{Event: s.note}}},
	})
	return db, err
}

func (s *server) note(_ context.Context, e tokens.Event) {
	if e, ok := e.(tokens.MustReauthorize); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reported[e.Key.User] = true
	}
}

func (s *server) call(ctx context.Context, user int) error {
	client, err := s.accounts.Client(ctx, userName(user))
	if err != nil {
		return err
	}
	_, err = client.Clinic.Get(ctx)
	return err
}

// callSoon is call for no longer than half a minute.
func (s *server) callSoon(user int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return s.call(ctx, user)
}

// visit calls for every user so many times, in an order that is this replica's.
func (s *server) visit(goroutines, visits int) {
	order := rand.Perm(s.Users * visits)
	var working sync.WaitGroup
	for g := range goroutines {
		working.Go(func() {
			for i := g; i < len(order); i += goroutines {
				user, began := order[i]%s.Users, time.Now()
				err := s.call(context.Background(), user)
				s.count(user, time.Since(began), err)
			}
		})
	}
	working.Wait()
}

func (s *server) count(user int, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Calls++
	s.report.Slowest = max(s.report.Slowest, took)
	if err == nil {
		return
	}
	if s.report.Failed++; s.report.Failed <= 10 {
		s.report.Failures = append(s.report.Failures, userName(user)+": "+err.Error())
	}
}

// work calls for every user again and again until the time is up, with fifty calls at
// a time.
func (s *server) work(length time.Duration) {
	up, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var working sync.WaitGroup
	for range 50 {
		working.Go(func() {
			for {
				user, began := rand.IntN(s.Users), time.Now()
				err := s.callSoon(user)
				s.count(user, time.Since(began), err)
				select {
				case <-up.Done():
					return
				case <-time.After(length/100 + rand.N(length/50)):
				}
			}
		})
	}
	working.Wait()
}

// recover calls for every user until it works, or the user has to authorize again:
// for a quarter of an hour at most.
func (s *server) recover() {
	const patience = 15 * time.Minute
	began := time.Now()
	users := make(chan int, s.Users)
	for user := range s.Users {
		users <- user
	}
	close(users)
	var working sync.WaitGroup
	for range 50 {
		working.Go(func() {
			for user := range users {
				err := s.callSoon(user)
				for err != nil && !errors.Is(err, dispensary.ErrReauthorize) && time.Since(began) < patience {
					time.Sleep(2 * time.Second)
					err = s.callSoon(user)
				}
				s.mu.Lock()
				if err != nil {
					s.report.Broken = append(s.report.Broken, userName(user))
				} else {
					s.report.Slowest = max(s.report.Slowest, time.Since(began))
				}
				s.mu.Unlock()
			}
		})
	}
	working.Wait()
	for name := range s.reported {
		s.report.Reported = append(s.report.Reported, name)
	}
}

func userName(n int) string { return fmt.Sprintf("user-%04d", n) }
