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

// The tests with a fixture use real sockets and a real clock: they show that the SDK, its client and HTTP work together. They wait for events,
// at most for patience.
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

// fixture is a bridged server on a real socket, and what its tools report.
type fixture struct {
	t      *testing.T
	mcp    *mcp.Server
	app    *app
	srv    *rejoin.Server
	url    string
	opened chan *session

	disconnected chan string   // a tool has disconnected its client, and has sent a message since
	started      chan string   // a tool has started
	causes       chan error    // why a tool's context ended
	release      chan struct{} // closed to make waiting tools return
	seen         chan struct{} // closed when the client has got what a tool waits for
}

// recordingApp sends each opened session to a channel.
type recordingApp struct {
	*app
	opened chan *session
	state  []byte // what Open restores
}

func (a *recordingApp) Open(r *http.Request, rs *rejoin.Session, _ []byte) (rejoin.AppSession, error) {
	opened, err := a.app.Open(r, rs, a.state)
	if err == nil {
		a.opened <- opened.(*session)
	}
	return opened, err
}

func newFixture(t *testing.T, cfg rejoin.Config, opts *mcp.ServerOptions) *fixture {
	f := &fixture{
		t: t, mcp: mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, opts), opened: make(chan *session, 64),
		disconnected: make(chan string, 64), started: make(chan string, 64), causes: make(chan error, 64), release: make(chan struct{}), seen: make(chan struct{}),
	}
	f.addTools()
	f.app = New(f.mcp).(*app)
	f.serve(cfg, &recordingApp{app: f.app, opened: f.opened})
	return f
}

func (f *fixture) serve(cfg rejoin.Config, app rejoin.App) {
	srv, err := rejoin.NewServer(app, cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.srv = srv
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
	f.t.Cleanup(func() { srv.Close(); ts.CloseClientConnections(); ts.Close() })
	f.url = ts.URL
}

type trace struct{}

func (f *fixture) connect(opts *mcp.ClientOptions) *mcp.ClientSession {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	f.t.Cleanup(cancel)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, opts).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: f.url}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// waitEnded waits until the session of the SDK has ended.
func (f *fixture) waitEnded(n *session) {
	f.t.Helper()
	done := make(chan error, 1)
	go func() { done <- n.ss.Wait() }()
	receive(f.t, "the SDK's session to end", done) // the error is that of a late tool, which could not write
	for s := range f.mcp.Sessions() {
		if s == n.ss {
			f.t.Error("the SDK still lists the session")
		}
	}
}
