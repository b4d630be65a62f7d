package hop

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func quick(t *testing.T, transport http.RoundTripper) *Forwarder {
	t.Helper()
	f := New(Config{Self: "http://self", Lease: time.Second, Transport: transport, Gone: func(Owner) bool { return false }})
	t.Cleanup(f.CloseIdle)
	return f
}

// What is in between may hang in the middle of its answer. A request waits no longer for it than for an owner.
func TestAForeignAnswerThatStops(t *testing.T) {
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte("half"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hold)
	began := time.Now()
	failed := make(chan error, 1)
	f, q := quick(t, nil), post(t, []byte("{}"))
	go func() {
		_, err := f.Send(Owner{server.URL, "I"}, q)
		failed <- err
	}()
	select {
	case err := <-failed:
		foreign, ok := errors.AsType[*ForeignError](err)
		require.True(t, ok, "%v", err)
		require.False(t, foreign.Passes())
		require.Less(t, time.Since(began), 2*time.Second)
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
}
