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

// allocated returns the bytes that a function allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// It is not parallel, because it measures what is allocated.
func TestUploadAddsNoCopyToLoad(t *testing.T) {
	fake := dispensarytest.New(t, dispensarytest.WithInMemory())
	api := New(fake, Options{})
	const size = 32 << 20
	file := bytes.Repeat([]byte(" "), size)
	load := allocated(func() { assert.Error(t, fake.Load(bytes.NewReader(file))) })
	r := httptest.NewRequest(http.MethodPut, "http://localhost/state", bytes.NewReader(file))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Content-Type", jsonMedia)
	w := httptest.NewRecorder()
	upload := allocated(func() { api.ServeHTTP(w, r) })
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
	assert.Less(t, upload, load+size/2)
}

func TestBrokenUploadIsReported(t *testing.T) {
	t.Parallel()
	status, answer := uploads(t, io.MultiReader(bytes.NewReader([]byte("{")), iotest.ErrReader(io.ErrUnexpectedEOF)))
	assert.Equal(t, http.StatusRequestEntityTooLarge, status)
	assert.Contains(t, answer, "or broke off")
}
