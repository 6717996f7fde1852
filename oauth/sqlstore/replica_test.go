package sqlstore_test

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/seal"
)

// replicaVariable makes the test binary a replica: a separate process that
// does what an integrator's server does.
const replicaVariable = "DISPENSARY_TEST_REPLICA"

func TestMain(m *testing.M) {
	if order := os.Getenv(replicaVariable); order != "" {
		if err := runReplica(order, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it would log every connection that a test cuts
	os.Exit(m.Run())
}

// order is the input of a replica, as JSON in its environment.
type order struct {
	Name         string
	Dialect      sqlstore.Dialect
	Driver       string
	Source       string
	Prefix       string
	Keys         string // of the ring
	Environment  api.Environment
	Origin       string // of the platform
	ClientID     string
	ClientSecret string
	RedirectURL  string
	LeaseTTL     time.Duration
	Users        int
	Goroutines   int
	Visits       int // of each user, by different goroutines
}

// report is what a replica has seen.
type report struct {
	Calls    int
	Failures []string
	Slowest  time.Duration // wait for a token; only printed, with no limit
}

// replica is the program: a client, a store, and calls of the platform.
type replica struct {
	order
	conns *tokens.Connections
	http  *http.Client

	mu     sync.Mutex
	report report
}

// runReplica says that it is ready, waits for a line, works, and reports.
func runReplica(text string, in io.Reader, out io.Writer) error {
	r := &replica{}
	if err := json.Unmarshal([]byte(text), &r.order); err != nil {
		return err
	}
	db, err := r.open()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, _ = fmt.Fprintln(out, "ready")
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return err
	}
	r.work()
	if err := r.conns.Close(context.Background()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r.report)
}

func (r *replica) open() (*sql.DB, error) {
	ring, err := seal.ParseKeyRing(api.Secret(r.Keys))
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(r.Driver, r.Source)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	config := sqlstore.Config{TablePrefix: r.Prefix}
	if err := sqlstore.Migrate(context.Background(), db, r.Dialect, config); err != nil {
		return nil, err
	}
	inner, err := sqlstore.New(db, r.Dialect, config)
	if err != nil {
		return nil, err
	}
	r.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
	client, err := oauth.New(oauth.Config{
		Site:     api.Site{Environment: r.Environment, BaseURL: r.Origin + "/api", AuthURL: r.Origin},
		ClientID: r.ClientID, ClientSecret: api.Secret(r.ClientSecret), RedirectURL: r.RedirectURL,
		HTTPClient: r.http, UserAgent: r.Name,
	})
	if err != nil {
		return nil, err
	}
	r.conns, err = tokens.NewConnections(tokens.Config{Client: client, Store: tokens.Sealed(inner, ring), LeaseTTL: r.LeaseTTL})
	return db, err
}

// work lets the goroutines share the visits, in an order that is this replica's.
func (r *replica) work() {
	visits := make([]int, 0, r.Users*r.Visits)
	for i := range r.Users * r.Visits {
		visits = append(visits, i%r.Users)
	}
	rand.Shuffle(len(visits), func(i, j int) { visits[i], visits[j] = visits[j], visits[i] })
	var wg sync.WaitGroup
	for g := range r.Goroutines {
		wg.Go(func() {
			for i := g; i < len(visits); i += r.Goroutines {
				waited, err := r.visit(visits[i])
				r.note(visits[i], waited, err)
			}
		})
	}
	wg.Wait()
}

// visit gets a user's token from a source that is made for this one call, and
// calls the platform with it.
func (r *replica) visit(user int) (time.Duration, error) {
	ctx := context.Background()
	began := time.Now()
	token, err := r.conns.TokenSource(userName(user)).Token(ctx)
	waited := time.Since(began)
	if err != nil {
		return waited, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Origin+"/api/clinic", nil)
	if err != nil {
		return waited, err
	}
	request.Header.Set("Authorization", "Bearer "+token.Secret.Reveal())
	response, err := r.http.Do(request)
	if err != nil {
		return waited, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the platform answered %s", response.Status)
	}
	return waited, cmp.Or(err, response.Body.Close())
}

func (r *replica) note(user int, waited time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Calls++
	r.report.Slowest = max(r.report.Slowest, waited)
	if err != nil && len(r.report.Failures) < 10 {
		r.report.Failures = append(r.report.Failures, userName(user)+": "+err.Error())
	}
}

func userName(n int) string { return fmt.Sprintf("user-%04d", n) }
