package conformance_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
)

// The tests named TestSideBySide run a server of each SDK behind the SDK's own handler and behind rejoin, and compare what a client and a tool
// observe. For rejoin this is a promise. For the others it is recorded, for docs/comparison.md: if a release of theirs changes its behaviour,
// a test fails.

// desk is what a tool uses of its SDK. The tools of these tests are written once for both SDKs.
type desk struct {
	ctx       context.Context
	header    http.Header
	token     *auth.TokenInfo
	progress  func(message string) error
	broadcast func(message string)             // sends a notification that belongs to no call
	letGo     func(after time.Duration) string // closes the call's stream, and returns what happened
}

// work is the only tool of a server. It returns the text of the result.
type work func(d desk) string

// sdk makes servers of one of the two SDKs, each with one tool.
type sdk struct {
	own    func(w work, store bool) (h http.Handler, end func()) // store: with the SDK's own event store
	bridge func(w work) rejoin.App
}

// sights are the expected observations, by the handler in front of the server.
type sights struct {
	goSDK, goSDKWithStore string
	mcpGo, mcpGoWithStore string
	rejoin                string // for both SDKs
}

// compare runs look with a server of each SDK behind each handler, each in a bubble of its own. enter starts the server and opens a session.
func compare(t *testing.T, want sights, look func(t *testing.T, enter func(work) *booth) string) {
	for _, house := range []struct {
		name  string
		mount func(t *testing.T, w work) http.Handler
		want  string
	}{
		{"go-sdk", own(goSDK, false), want.goSDK},
		{"go-sdk with a store", own(goSDK, true), want.goSDKWithStore},
		{"go-sdk behind rejoin", bridged(goSDK), want.rejoin},
		{"mcp-go", own(mcpGo, false), want.mcpGo},
		{"mcp-go with a store", own(mcpGo, true), want.mcpGoWithStore},
		{"mcp-go behind rejoin", bridged(mcpGo), want.rejoin},
	} {
		t.Run(house.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := look(t, func(w work) *booth {
					b := open(t, house.mount(t, w))
					b.reconnect()
					return b
				})
				require.Equal(t, house.want, got)
			})
		})
	}
}

func own(s sdk, store bool) func(*testing.T, work) http.Handler {
	return func(t *testing.T, w work) http.Handler {
		h, end := s.own(w, store)
		t.Cleanup(end)
		r := chi.NewRouter()
		r.Use(identify)
		r.Handle("/mcp", h)
		r.Handle("/{tenant}/mcp", h)
		return r
	}
}

func bridged(s sdk) func(*testing.T, work) http.Handler {
	return func(t *testing.T, w work) http.Handler {
		srv, err := rejoin.NewServer(s.bridge(w), rejoin.Config{Eras: rejoin.EraLegacy, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(srv.Close)
		r := chi.NewRouter()
		r.Use(identify)
		chiadapter.Register(r, "/mcp", srv)
		chiadapter.Register(r, "/{tenant}/mcp", srv)
		return r
	}
}

type userKey struct{}

// identify is a middleware that puts the user into the request's context, as middleware for chi does.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, r.Header.Get("X-User"))))
	})
}

// letGo closes the stream by rejoin's handle, which also works in the tools of a bridged server.
func letGo(ctx context.Context, after time.Duration) string {
	if err := rejoin.HandleFromContext(ctx).CloseStream(after); err != nil {
		return "no way to close"
	}
	return "closed"
}

// notice has the fields of a notification or a result that the tests use.
type notice struct {
	Method string
	Params struct{ Message string }
	Result struct {
		Content []struct{ Text string }
	}
}

func noticeOf(data string) (m notice) {
	_ = json.Unmarshal([]byte(data), &m) // without a method if it is not a message
	return m
}
