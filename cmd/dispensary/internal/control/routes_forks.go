package control

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// forks are the platforms that were split off from this one, each with a control API
// of its own below this one's address.
type forks struct {
	mu     sync.Mutex
	n      int
	order  []string
	named  map[string]*Handler
	closed bool
}

// maxForks bounds how many there are at a time; each has a listener.
const maxForks = 100

// forked is a fork and all that an integrator has to know of it.
type forked struct {
	ID       string
	Settings Settings
}

func forkOperations() []Operation {
	return []Operation{
		list("forks.list", "/forks", "forks", "The platforms that were split off from this one, and are not closed.",
			"fork := fake.Fork(t)", func(c *call) []forked { return c.api.forks.all() }),
		do("forks.start", "POST", "/forks", "Starts a second platform that begins as this one stands, with addresses and a control API of its own. Tests that run side by side get one each.",
			"fork, err := fake.StartFork()", startFork),
		do("forks.close", "DELETE", "/forks/{fork_id}", "Closes a fork.",
			"err := fork.Close()",
			func(c *call) (nothing, error) { return nothing{}, c.api.forks.remove(c.path("fork_id")) }),
	}
}

func startFork(c *call) (forked, error) {
	fork, err := c.fake.StartFork()
	if err != nil {
		return forked{}, err
	}
	row, err := c.api.forks.add(fork, c.api.options.ControlURL)
	if err != nil {
		return forked{}, errors.Join(err, fork.Close())
	}
	return row, nil
}

func (f *forks) add(fork *dispensarytest.Server, controlURL string) (forked, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return forked{}, &problem{status: http.StatusConflict, message: "the platform is being closed"}
	case len(f.order) >= maxForks:
		return forked{}, &problem{status: http.StatusConflict, message: "there are a hundred forks; close one first"}
	case f.named == nil:
		f.named = make(map[string]*Handler)
	}
	f.n++
	id := "fork-" + strconv.Itoa(f.n)
	f.named[id], f.order = New(fork, Options{ControlURL: controlURL + "/forks/" + id + "/control"}), append(f.order, id)
	return forked{id, f.named[id].Settings()}, nil
}

func (f *forks) all() (rows []forked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.order {
		rows = append(rows, forked{id, f.named[id].Settings()})
	}
	return rows
}

func (f *forks) get(id string) (*Handler, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fork := f.named[id]; fork != nil {
		return fork, nil
	}
	return nil, &problem{status: http.StatusNotFound, message: "no fork has the id " + id}
}

func (f *forks) remove(id string) error {
	fork, err := f.get(id)
	if err != nil {
		return err
	}
	f.mu.Lock()
	delete(f.named, id)
	f.order = slices.DeleteFunc(f.order, func(other string) bool { return other == id })
	f.mu.Unlock()
	return errors.Join(fork.Close(), fork.fake.Close())
}

// close closes all of them, and lets no other one be started.
func (f *forks) close() error {
	f.mu.Lock()
	f.closed = true
	ids := slices.Clone(f.order)
	f.mu.Unlock()
	var failed error
	for _, id := range ids {
		failed = errors.Join(failed, f.remove(id))
	}
	return failed
}

// serveFork passes a request on to the control API of a fork.
func (h *Handler) serveFork(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("fork_id")
	fork, err := h.forks.get(id)
	if err != nil {
		refuse(w, err)
		return
	}
	http.StripPrefix("/forks/"+id+"/control", fork.mux).ServeHTTP(w, r)
}
