package torture_test

import (
	"net/http"

	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

type wireKey struct{}

// noting notes at the wire of a request that the request is forwarded.
type noting struct{ *http.Transport }

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	if x, ok := r.Context().Value(wireKey{}).(*wire); ok {
		x.forwarded.Store(true)
	}
	return n.Transport.RoundTrip(r)
}

// forwardedTo serves what other machines forward to one.
func (tt *torture) forwardedTo(p *machine) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := kit.KeyOf(r.Header.Get("Mcp-Session-Id"))
		tt.awake(p)
		tt.count(&p.serving)
		defer func() {
			tt.mu.Lock()
			defer tt.mu.Unlock()
			p.serving--
		}()
		before, n := tt.engine.owner(key)
		stdadapter.New(p.Server).ServeHTTP(&judge{ResponseWriter: w, judge: func(status int) {
			if status < 300 && r.Method != http.MethodGet && r.Header.Get("Mcp-Session-Id") != "" {
				tt.mustOwn(p, key, before, n, "forwarded "+r.Method)
			}
		}}, r)
	})
}

// mustOwn requires that a machine has served a session that it has owned in the meantime. before was the owner when the request came, the nth.
func (tt *torture) mustOwn(p *machine, key string, before cluster.Record, n int, what string) {
	t := tt.taleOf(key)
	tt.mu.Lock()
	lost := t.lost || t.lossy // the engine has lost what it had, while an owner was away
	tt.mu.Unlock()
	if before.Fence.Incarnation != p.watch.incarnation && !tt.engine.owned(key, p.watch.incarnation, n) && !lost {
		tt.fault("%s: %s has answered, and %s owns the session", what, p.name, short(before.Fence.Incarnation))
	}
}

// judge looks at the status of a response.
type judge struct {
	http.ResponseWriter
	judge func(status int)
}

func (w *judge) WriteHeader(status int) {
	w.judge(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *judge) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// isDead reports whether a machine was killed, or closed. The mu is held.
func (tt *torture) isDead(incarnation string) bool {
	for _, p := range append(tt.graves, tt.slots...) {
		if (p.dead || p.closing) && p.watch.incarnation == incarnation {
			return true
		}
	}
	return false
}
