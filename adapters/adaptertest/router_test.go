package adaptertest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// router reuses the state of a request for other requests, as many routers do. It has one route, and perhaps a flaw in how the server is
// mounted on it.
type router struct {
	flaw  string
	pool  []*requestState
	mu    sync.Mutex
	first map[string]string
}

// requestState is what a request gets from the router: its response writer, its parameters and the values of middleware.
type requestState struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	values map[string]string
}

func (st *requestState) get(name string) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.values[name]
}

func (st *requestState) set(w http.ResponseWriter, values map[string]string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.w, st.values = w, values
}

func (st *requestState) write(s string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.w != nil {
		_, _ = st.w.Write([]byte(s))
		_ = http.NewResponseController(st.w).Flush()
	}
}

func (r *router) take() *requestState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.pool); n > 0 {
		st := r.pool[n-1]
		r.pool = r.pool[:n-1]
		return st
	}
	return &requestState{}
}

func (r *router) give(st *requestState) {
	st.set(nil, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pool = append(r.pool, st)
}

// match reports whether a path is that of the route, in either spelling, and returns its parameter.
func match(route, path string) (tenant string, ok bool) {
	path = strings.TrimSuffix(path, "/")
	tail, some := strings.CutPrefix(route, "/{tenant}")
	if !some {
		return "", path == route
	}
	tenant, ok = strings.CutSuffix(strings.TrimPrefix(path, "/"), tail)
	return tenant, ok && !strings.Contains(tenant, "/")
}

// isPeer reports whether a request comes from the other process, by its address.
func isPeer(q *http.Request) bool { return strings.HasPrefix(q.RemoteAddr, "198.51.100.") }

type stateKey struct{}

// claiming is a writer with a Flush that does nothing.
type claiming struct{ plain }

func (claiming) Flush() {}

func (r *router) mount(s *rejoin.Server, route string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		tenant, ok := match(route, q.URL.Path)
		if !ok {
			http.NotFound(w, q)
			return
		}
		slash := strings.HasSuffix(q.URL.Path, "/")
		switch {
		case r.flaw == "redirects" && slash:
			http.Redirect(w, q, strings.TrimSuffix(q.URL.Path, "/"), http.StatusPermanentRedirect)
			return
		case r.flaw == "knows one spelling" && slash:
			http.NotFound(w, q)
			return
		case r.flaw == "answers HEAD" && q.Method == http.MethodHead, r.flaw == "answers OPTIONS" && q.Method == http.MethodOptions:
			return
		case r.flaw == "has a 405 of its own" && q.Method == http.MethodPut:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case r.flaw == "knows clients alone" && isPeer(q):
			w.WriteHeader(http.StatusForbidden)
			return
		case r.flaw == "drops unknown fields":
			q.Header.Del("Rejoin-Forwarded")
		case r.flaw == "takes the cursor away":
			q.Header.Del(cursorHeader)
		}
		w, ok = alter(r.flaw, w, q)
		if !ok {
			return
		}
		st := r.take()
		defer r.give(st)
		if r.flaw == "knows tenants by their connection" && isPeer(q) {
			tenant = "any"
		}
		st.set(w, map[string]string{"user": q.Header.Get(UserHeader), "tenant": tenant})
		r.serve(s, w, q, st)
	})
}

// locked is a writer that late writes do not race with. So the exam finds them, and not the race detector.
type locked struct {
	st *requestState
	http.ResponseWriter
}

func (w locked) Write(p []byte) (int, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

func (w locked) FlushError() error {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// serve is the adapter.
func (r *router) serve(s *rejoin.Server, w http.ResponseWriter, q *http.Request, st *requestState) {
	parent, copied := q.Context(), &requestState{values: maps.Clone(st.values)}
	switch r.flaw {
	case "hands its own context on":
		copied = st
	case "forgets the parameters":
		delete(copied.values, "tenant")
	case "forgets the user":
		delete(copied.values, "user")
	case "remembers the first":
		r.mu.Lock()
		if r.first == nil {
			r.first = copied.values
		}
		copied.values = r.first
		r.mu.Unlock()
	case "has a context of its own":
		parent = context.Background()
	case "buffers":
		w = plain{w}
	case "claims to flush":
		w = claiming{plain{w}}
	case "hides the connection":
		w = flushing{plain{w}}
	case "writes late":
		w = locked{st, w}
	case "adds a head of its own":
		w.Header().Add("Access-Control-Allow-Origin", "*")
	case "adds a header":
		w.Header().Set("Content-Encoding", "identity")
	}
	s.Serve(w, q.WithContext(context.WithValue(parent, stateKey{}, copied)))
	switch r.flaw {
	case "has an error handler":
		fmt.Fprintln(w, "Internal Server Error")
	case "writes late":
		go func() {
			for range 5 {
				elapse(time.Second + time.Millisecond)
				st.write("late")
			}
		}()
	}
}

// subject is a Subject with a flaw, or without one if flaw is "".
func subject(flaw string) Subject {
	value := func(ctx context.Context, name string) string {
		if st, ok := ctx.Value(stateKey{}).(*requestState); ok {
			return st.get(name)
		}
		return ""
	}
	var first *rejoin.Server
	return Subject{
		Mount: func(_ testing.TB, s *rejoin.Server, path string, mw ...func(http.Handler) http.Handler) http.Handler {
			if first == nil {
				first = s
			}
			if flaw == "serves the first server" {
				s = first
			}
			h := (&router{flaw: flaw}).mount(s, path)
			for _, outer := range slices.Backward(mw) {
				h = outer(h)
			}
			return h
		},
		Lend: func(_ testing.TB, s *rejoin.Server, path, route string, h http.HandlerFunc) http.Handler {
			at := strings.TrimSuffix(path, "/")
			endpoint := (&router{flaw: flaw}).mount(s, at)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case path == "" && flaw == "serves any path":
					r.URL.Path = ""
					endpoint.ServeHTTP(w, r)
				case path != "" && strings.TrimSuffix(r.URL.Path, "/") == at:
					endpoint.ServeHTTP(w, r)
				case r.URL.Path != route:
					http.NotFound(w, r)
				case flaw == "lends nothing", flaw == "lends where it serves" && path == "":
					h(w, r)
				default:
					h(w, r.WithContext(rejoin.ContextWithServer(r.Context(), s)))
				}
			})
		},
		Param: value,
		Value: func(ctx context.Context, name string) (any, bool) {
			v := value(ctx, name)
			if v == "" && flaw != "makes nothing of what is unset" {
				return nil, false
			}
			return v, true
		},
	}
}
