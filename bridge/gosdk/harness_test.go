package gosdk

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// These tests use real sockets and a real clock: what they prove is that the SDK, its client and HTTP fit together. They wait for
// events, and patience bounds the wait.
const patience = 60 * time.Second

func receive[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

// bench is a bridged server on a real socket, and what its tools report.
type bench struct {
	t      *testing.T
	mcp    *mcp.Server
	app    *app
	srv    *rejoin.Server
	url    string
	opened chan *session

	parked  chan string   // a tool has let its client go, and sent something since
	begun   chan string   // a tool has begun
	causes  chan error    // why a tool's context ended
	release chan struct{} // lets tools go that wait for it
	seen    chan struct{} // the client has got what a tool waits for
}

// spy tells of each session that is opened.
type spy struct {
	*app
	opened chan *session
	state  []byte // what Open restores
}

func (s *spy) Open(r *http.Request, n *rejoin.Session, _ []byte) (rejoin.AppSession, error) {
	a, err := s.app.Open(r, n, s.state)
	if err == nil {
		s.opened <- a.(*session)
	}
	return a, err
}

func newBench(t *testing.T, cfg rejoin.Config, opts *mcp.ServerOptions) *bench {
	b := &bench{
		t: t, mcp: mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, opts), opened: make(chan *session, 64),
		parked: make(chan string, 64), begun: make(chan string, 64), causes: make(chan error, 64), release: make(chan struct{}), seen: make(chan struct{}),
	}
	b.addTools()
	b.app = New(b.mcp).(*app)
	b.serve(cfg, &spy{app: b.app, opened: b.opened})
	return b
}

func (b *bench) serve(cfg rejoin.Config, app rejoin.App) {
	srv, err := rejoin.NewServer(app, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.srv = srv
	h := stdadapter.New(srv)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	secure := auth.RequireBearerToken(verify, nil)(h)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), trace{}, r.Header.Get("X-Trace")))
		if r.Header.Get("Authorization") != "" {
			secure.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
	b.t.Cleanup(func() { srv.Close(); ts.CloseClientConnections(); ts.Close() })
	b.url = ts.URL
}

type trace struct{}

func (b *bench) connect(opts *mcp.ClientOptions) *mcp.ClientSession {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, opts).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: b.url}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// gone waits until the SDK has let go of a session.
func (b *bench) gone(n *session) {
	b.t.Helper()
	done := make(chan error, 1)
	go func() { done <- n.ss.Wait() }()
	receive(b.t, "the SDK's session to end", done) // what a late tool could not write is an error of the SDK's session
	for s := range b.mcp.Sessions() {
		if s == n.ss {
			b.t.Error("the SDK still lists the session")
		}
	}
}
