package spray_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/conformance/internal/spray"
)

// deadline is the deadline of everything that a test waits for. The front dials, so these tests use real sockets.
const deadline = time.Minute

// serve starts servers that say which one they are, and a front before them.
func serve(t *testing.T, n int, then http.HandlerFunc) (front string, servers []*httptest.Server) {
	t.Helper()
	var addresses []string
	for i := range n {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%d %s\n", i, r.Host)
			then(w, r)
		}))
		t.Cleanup(server.Close)
		servers, addresses = append(servers, server), append(addresses, server.Listener.Addr().String())
	}
	server := httptest.NewServer(spray.New(addresses...))
	t.Cleanup(server.Close)
	return server.URL, servers
}

func get(t *testing.T, ctx context.Context, url string) *http.Response { //nolint:revive // t is first in all helpers
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/path?query", http.NoBody)
	require.NoError(t, err)
	r.Host = "localhost:1"
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	return res
}

func TestEachRequestGoesToTheNextServer(t *testing.T) {
	front, servers := serve(t, 3, func(http.ResponseWriter, *http.Request) {})
	ask := func() string {
		res := get(t, t.Context(), front)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return fmt.Sprint(res.StatusCode, " ", string(body))
	}
	for i := range 9 {
		require.Equal(t, fmt.Sprintf("200 %d localhost:1\n", i%3), ask())
	}
	servers[0].Close()
	for range 2 {
		require.Equal(t, "200 1 localhost:1\n", ask(), "the first server is passed over")
		require.Equal(t, "200 1 localhost:1\n", ask())
		require.Equal(t, "200 2 localhost:1\n", ask())
	}
	servers[1].Close()
	servers[2].Close()
	require.Equal(t, "502 ", ask())
}

func TestAStreamIsPassedOnAndEndsWithItsClient(t *testing.T) {
	left := make(chan struct{})
	front, _ := serve(t, 1, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	res := get(t, ctx, front)
	defer res.Body.Close()
	line := make([]byte, len("0 localhost:1\n"))
	_, err := io.ReadFull(res.Body, line)
	require.NoError(t, err, "the server has not ended the response")
	require.Equal(t, "0 localhost:1\n", string(line))
	cancel()
	select {
	case <-left:
	case <-time.After(deadline):
		t.Fatal("the server does not learn that its client has left")
	}
}

// A server that breaks a stream breaks it for the client too: a clean end would be another thing.
func TestABrokenStreamIsBroken(t *testing.T) {
	front, _ := serve(t, 1, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	res := get(t, t.Context(), front)
	defer res.Body.Close()
	_, err := io.ReadAll(res.Body)
	require.Error(t, err)
}

// An answer may begin before the front has looked for the end of the request's body.
func TestAnAnswerThatBeginsEarlyIsPassedOnWhole(t *testing.T) {
	gates := make([]chan struct{}, 1000)
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	front, _ := serve(t, 2, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		body, _ := io.ReadAll(r.Body)
		i, _ := strconv.Atoi(string(body))
		<-gates[i]
		fmt.Fprint(w, "the rest")
	})
	answers := make(chan error)
	for some := range slices.Chunk(gates, len(gates)/20) {
		go func() {
			for _, gate := range some {
				answers <- readWhole(front, strconv.Itoa(slices.Index(gates, gate)), gate)
			}
		}()
	}
	for range gates {
		require.NoError(t, <-answers)
	}
}

// readWhole opens the gate when the answer has begun.
func readWhole(front, request string, gate chan struct{}) error {
	res, err := http.Post(front, "text/plain", strings.NewReader(request))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
		return err
	}
	close(gate)
	_, err = io.ReadAll(res.Body)
	return err
}
