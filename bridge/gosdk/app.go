package gosdk

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"runtime"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// New bridges s, to which it adds one receiving middleware: call it after your own AddReceivingMiddleware. Calling it twice is
// harmless.
func New(s *mcp.Server) rejoin.App {
	a := newApp(func(*http.Request) *mcp.Server { return s })
	a.adopt(s)
	return a
}

// NewFunc chooses a server for each session, and for each request of the modern era. f is asked once for a session, with the request that
// carries its initialize, and every later request of the session goes to the server that it returned then. So that server must have all
// tools, prompts and resources that the session will ever ask for: one that is built for the method at hand, as a function for a stateless
// mcp.NewStreamableHTTPHandler may do, has none of them, and rejoin logs that it lists no tools. What differs from call to call, such as
// tokens and users, handlers read from their own context and RequestExtra, which are those of their own request.
//
// Nil refuses with 400. f runs on the goroutine that serves the request, and may be called for many at once. Each server gets New's
// middleware when it is first chosen, and is not kept alive.
func NewFunc(f func(*http.Request) *mcp.Server) rejoin.App { return newApp(f) }

// Principal is a rejoin.Config.Principal that takes the user from the SDK's auth.RequireBearerToken; "" without that.
//
// It is the UserID that the TokenVerifier gave; set that. Where it gave none, each token is a user of its own, named by "token:" and a hash of the
// Authorization field: nobody gets at the session of another, but a client whose token was refreshed does not get at its own, and has to
// initialize anew. Where not even the field is left, no request has the same user as another, so that no session can be used.
func Principal(r *http.Request) string {
	t := auth.TokenInfoFromContext(r.Context())
	switch {
	case t == nil:
		return ""
	case t.UserID != "":
		return t.UserID
	}
	token := r.Header.Get("Authorization")
	if token == "" {
		return "token:" + rand.Text()
	}
	hash := sha256.Sum256([]byte(token))
	return "token:" + base64.RawURLEncoding.EncodeToString(hash[:])
}

type app struct {
	choose  func(*http.Request) *mcp.Server
	modern  http.Handler
	idKey   any       // of the SDK, nil: unknown
	warn    sync.Once // that it is
	adopted sync.Map  // weak.Pointer[mcp.Server]: it has the middleware
}

func newApp(choose func(*http.Request) *mcp.Server) *app {
	a := &app{choose: choose, idKey: probeIDKey()}
	a.modern = newModern(a.server)
	return a
}

// server chooses the server of a request.
func (a *app) server(r *http.Request) *mcp.Server {
	s := a.choose(r)
	if s != nil {
		a.adopt(s)
	}
	return s
}

// adopt adds the middleware to a server that has not got it.
func (a *app) adopt(s *mcp.Server) {
	key := weak.Make(s)
	if _, has := a.adopted.LoadOrStore(key, nil); has {
		return
	}
	runtime.AddCleanup(s, func(key weak.Pointer[mcp.Server]) { a.adopted.Delete(key) }, key)
	s.AddReceivingMiddleware(middleware)
}

func (a *app) Modern() http.Handler { return a.modern }

func (a *app) Open(r *http.Request, s *rejoin.Session, saved []byte) (rejoin.AppSession, error) {
	server := a.server(r)
	if server == nil {
		return nil, rejoin.Errorf(rejoin.CodeInvalidRequest, "there is no server for this request")
	}
	if a.idKey == nil {
		a.warn.Do(func() {
			s.Logger().Warn("rejoin: this version of the Go SDK does not tell requests apart: what middleware added after gosdk.New sends goes to the standalone stream")
		})
	}
	c := &session{
		app: a, s: s, calls: map[string]*carrier{}, carriers: map[weak.Pointer[mcp.RequestExtra]]*carrier{},
		asked: map[jsonrpc.ID]*question{},
	}
	c.ready.L = &c.mu
	opts, err := c.restore(r, saved)
	if err != nil {
		return nil, err
	}
	// Not with r's context: handlers' contexts have the values of this one, whichever request carries their call.
	ss, err := server.Connect(context.WithValue(context.Background(), sessionKey{}, c), c, opts)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.ss = ss
	over := c.over
	c.mu.Unlock()
	if over { // Ended has found nothing to close
		go c.close(ss)
	}
	return c, nil
}
