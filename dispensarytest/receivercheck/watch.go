package receivercheck

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
)

// watch is a handler whose panics and ends are seen.
type watch struct {
	handler http.Handler

	mu      sync.Mutex
	running int
	panics  []string
}

// ServeHTTP implements [http.Handler].
func (w *watch) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.count(1)
	defer w.count(-1)
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause != http.ErrAbortHandler {
			w.mu.Lock()
			w.panics = append(w.panics, fmt.Sprintf("%v\n%s", cause, debug.Stack()))
			w.mu.Unlock()
		}
		panic(cause) // the connection drops, as with a server of net/http
	}()
	w.handler.ServeHTTP(rw, r)
}

func (w *watch) count(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running += n
}

// idle reports that every request has ended.
func (w *watch) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running == 0
}
