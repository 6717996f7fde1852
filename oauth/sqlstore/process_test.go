package sqlstore_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// serverVariable makes the test binary a replica: a separate process that works like your
// server and reads its tasks from standard input.
const serverVariable = "DISPENSARY_TEST_REPLICA"

func TestMain(m *testing.M) {
	if order := os.Getenv(serverVariable); order != "" {
		if err := serve(order, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it would log every connection that a test closes
	os.Exit(m.Run())
}

// order is the configuration of a replica, as JSON in its environment.
type order struct {
	Name           string
	Dialect        sqlstore.Dialect
	Driver, Source string
	Connections    int    // maximum number of database connections
	Keys           string // text of the key ring
	Site           api.Site
	ClientID       string
	ClientSecret   string
	RedirectURL    string
	LeaseTTL       time.Duration
	Users          int
}

// task is the work of a replica, as a line of JSON in its input. The replica responds with a
// [report].
type task struct {
	Goroutines int
	Visits     int // of each user, from different goroutines
}

// report is the result of a task.
type report struct {
	Calls    int
	Failures []string // the first 10
	Slowest  time.Duration
}

// server is the program of a replica.
type server struct {
	order
	accounts *accounts.Accounts

	mu     sync.Mutex
	report report
}

// serve reports that it is ready and runs tasks until its input ends.
func serve(text string, in io.Reader, out io.Writer) error {
	s := &server{}
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
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var t task
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return err
		}
		s.report = report{}
		s.visit(t.Goroutines, t.Visits)
		if err := answer.Encode(s.report); err != nil {
			return err
		}
	}
	return s.accounts.Close(context.Background())
}

func (s *server) open() (*sql.DB, error) {
	db, err := sql.Open(s.Driver, s.Source)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(s.Connections)
	db.SetMaxIdleConns(s.Connections)
	store, err := sealedOn(db, s.Dialect, api.NewSecret(s.Keys))
	if err != nil {
		return nil, err
	}
	s.accounts, err = accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: s.Site, ClientID: s.ClientID, ClientSecret: api.NewSecret(s.ClientSecret), RedirectURL: s.RedirectURL, UserAgent: s.Name,
		}},
		Tokens: tokens.Config{Store: store, LeaseTTL: s.LeaseTTL},
	})
	return db, err
}

func (s *server) call(ctx context.Context, user int) error {
	client, err := s.accounts.Client(ctx, userName(user))
	if err != nil {
		return err
	}
	_, err = client.Clinic.Get(ctx)
	return err
}

// visit makes the given number of calls for every user, in a random order.
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
	if err != nil && len(s.report.Failures) < 10 {
		s.report.Failures = append(s.report.Failures, userName(user)+": "+err.Error())
	}
}

func userName(n int) string { return fmt.Sprintf("user-%04d", n) }
