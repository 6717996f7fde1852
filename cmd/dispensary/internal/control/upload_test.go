package control

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// uploads sends a file for the state, as the API and the console do.
func uploads(t *testing.T, body io.Reader) (status int, answer string) {
	t.Helper()
	api := New(dispensarytest.New(t, dispensarytest.WithInMemory()), Options{})
	status, text := api.Call(t.Context(), http.MethodPut, "/state", body)
	return status, string(text)
}

// It is not parallel, because it measures what is allocated.
func TestUploadIsCopiedOnce(t *testing.T) {
	api := New(dispensarytest.New(t, dispensarytest.WithInMemory()), Options{})
	const size = 32 << 20
	file := bytes.Repeat([]byte(" "), size)
	r := httptest.NewRequest(http.MethodPut, "http://localhost/state", bytes.NewReader(file))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Content-Type", jsonMedia)
	w := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	api.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3*size))
}

func TestBrokenUploadIsReported(t *testing.T) {
	t.Parallel()
	status, answer := uploads(t, io.MultiReader(bytes.NewReader([]byte("{")), iotest.ErrReader(io.ErrUnexpectedEOF)))
	assert.Equal(t, http.StatusRequestEntityTooLarge, status)
	assert.Contains(t, answer, "or broke off")
}
