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

// New returns an app that serves s. It adds one receiving middleware to s, so call it after your own AddReceivingMiddleware. You may call it
// more than once for one server.
func New(s *mcp.Server) rejoin.ModernApp {
	a := newApp(func(*http.Request) *mcp.Server { return s })
	a.addMiddleware(s)
	return a
}

// NewFunc returns an app that calls f to choose a server for each session, and for each request of the modern era. For a session it calls f
// once, with the request that carries initialize. All later requests of the session go to the server that f returned then, so this server must
// have all tools, prompts and resources that the session will ever ask for. Functions written for a stateless mcp.NewStreamableHTTPHandler may
// build a server for the requested method only. Such a server has no tools here, and rejoin logs that it lists none. Data that differs from
// call to call, such as tokens and users, is in a handler's context and RequestExtra: both belong to the handler's own request.
//
// If f returns nil, the request is refused with 400. f runs on the goroutine that serves the request, and on several goroutines at once. Each
// server gets the middleware of New when f first returns it. The app does not keep servers alive.
func NewFunc(f func(*http.Request) *mcp.Server) rejoin.ModernApp { return newApp(f) }

// Principal is a rejoin.Config.Principal that returns the user that the SDK's auth.RequireBearerToken has found; "" if that middleware is not in
// front.
//
// The user is TokenInfo.UserID, so let your TokenVerifier set it. If it is empty, each token counts as a user of its own, named "token:" and a
// hash of the Authorization field. Then a client cannot use the session of another client, but a client whose token was refreshed cannot use its
// own session either, and must initialize again. If the Authorization field is missing too, each request counts as another user, and no session
// can be used.
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
	choose         func(*http.Request) *mcp.Server
	modern         http.Handler
	idKey          any       // the SDK's context key of a request's id; nil: unknown
	warnOnce       sync.Once // of an unknown idKey
	haveMiddleware sync.Map  // the servers with our middleware, by weak.Pointer[mcp.Server]
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
		a.addMiddleware(s)
	}
	return s
}

// addMiddleware adds our middleware to a server, unless it has it.
func (a *app) addMiddleware(s *mcp.Server) {
	key := weak.Make(s)
	if _, has := a.haveMiddleware.LoadOrStore(key, nil); has {
		return
	}
	runtime.AddCleanup(s, func(key weak.Pointer[mcp.Server]) { a.haveMiddleware.Delete(key) }, key)
	s.AddReceivingMiddleware(middleware)
}

func (a *app) Modern() http.Handler { return a.modern }

func (a *app) Open(r *http.Request, rs *rejoin.Session, saved []byte) (rejoin.AppSession, error) {
	server := a.server(r)
	if server == nil {
		return nil, rejoin.Errorf(rejoin.CodeInvalidRequest, "there is no server for this request")
	}
	if a.idKey == nil {
		a.warnOnce.Do(func() {
			rs.Logger().Warn("rejoin: this version of the Go SDK does not tell requests apart: " +
				"what middleware added after gosdk.New sends goes to the standalone stream")
		})
	}
	s := &session{
		app: a, session: rs, calls: map[string]*incoming{}, incoming: map[weak.Pointer[mcp.RequestExtra]]*incoming{},
		questions: map[jsonrpc.ID]*question{},
	}
	s.ready.L = &s.mu
	opts, err := s.restore(r, saved)
	if err != nil {
		return nil, err
	}
	// Not r's context: the SDK derives the contexts of all handlers from this one, and each must have the values of its own request.
	ss, err := server.Connect(context.WithValue(context.Background(), sessionKey{}, s), s, opts)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.ss = ss
	ended := s.ended
	s.mu.Unlock()
	if ended { // Ended was called before there was a session of the SDK to close
		go s.closeSDK(ss)
	}
	return s, nil
}
