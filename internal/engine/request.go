package engine

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/core"
)

// Request is what the engine keeps of one request of the client. It is part of what the app sees of the request. Init makes it ready. It must
// not be copied.
type Request struct {
	tool   Tool
	s      *Session
	st     *stream // set before the app sees the request
	id     string  // as the client wrote it
	method string
	opens  bool // initialize
	task   bool // it is task-augmented
	done   atomic.Bool
	work   work
}

// Tool is the app's side of a request.
type Tool interface {
	// Cancel ends the context of the request. Only the first cause counts. It is called without a lock.
	Cancel(cause error)
}

// Init makes a request, before anything else is called.
func (r *Request) Init(s *Session, tool Tool, id, method string, task bool) {
	r.s, r.tool, r.id, r.method, r.task = s, tool, id, method, task
}

// ID is the request's id as the client wrote it.
func (r *Request) ID() string { return r.id }

// Method is the request's method.
func (r *Request) Method() string { return r.method }

func (r *Request) isPing() bool { return r.method == "ping" }

// Opens reports whether it is the initialize of its session.
func (r *Request) Opens() bool { return r.opens }

// Stream names its stream.
func (r *Request) Stream() core.StreamID { return r.st.id }

// StreamNumber is the number of its stream in the session.
func (r *Request) StreamNumber() uint32 { return r.st.n }

// Claim reports whether the caller may answer: only the first one may. The app calls Returned as well.
func (r *Request) Claim() bool { return r.done.CompareAndSwap(false, true) }

// Reply records the response, a JSON-RPC message; its caller has claimed it. failed: it is an error. It returns why it went nowhere.
func (r *Request) Reply(response []byte, failed bool) core.Reason {
	s := r.s
	// On its stream, and before the answer, after which nothing travels there.
	s.withdrawAll(r, s.failAsks(r, s.host.Cause(core.Ended)), "the request was answered")
	why := s.Send(Message{Op: core.Reply, Stream: r.st.id, ID: r.id, Data: response})
	r.tool.Cancel(context.Canceled)
	s.failAsks(r, s.host.Cause(core.Ended))
	if failed && r.opens {
		s.End(core.OpenFailure, nil)
	}
	return why
}

// fail answers a request that the engine has claimed.
func (r *Request) fail(why core.Reason) { r.Reply(r.s.host.Failure([]byte(r.id), why), true) }

// Connected reports whether the client reads now.
func (r *Request) Connected() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.st.conn != nil
}

// WatchConnected reports whether the client reads now, and otherwise returns what is closed when it does.
func (r *Request) WatchConnected() (yes bool, changed <-chan struct{}) { return r.st.watch(r.s) }

// Resumable reports whether Close can work for the client.
func (r *Request) Resumable() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.m.Resumable(r.st.id)
}

// Running returns the app's side of the requests of the session that are not answered.
func (s *Session) Running() (tools []Tool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st == nil {
			continue
		}
		for _, r := range st.requests {
			tools = append(tools, r.tool)
		}
	}
	return tools
}

// work says whether the app still works on a request, also after the request has ended. An app that ignores the end of its context works on.
// Without this count a client could start any number of handlers: it would cancel each request and start another one.
type work struct {
	state atomic.Uint32
	lost  runtime.Cleanup
}

const (
	waiting  uint32 = iota // the app has not seen the request
	orphaned               // and the request has ended
	working                // the app has it
	stale                  // and the request has ended: it is counted
	returned               // the app has answered
)

// tally counts the requests that have ended and whose app has not answered, in a session and in its engine. It is an object of its own so that
// it does not keep in memory what it counts.
type tally struct {
	n   atomic.Int64
	all *atomic.Int64
}

func (t *tally) add(n int64) {
	t.n.Add(n)
	t.all.Add(n)
}

func (t *tally) count() int {
	if t == nil {
		return 0
	}
	return int(t.n.Load())
}

// Begin notes that the app is about to be given the request.
func (r *Request) Begin() {
	if r.work.state.CompareAndSwap(waiting, working) {
		return
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.work.state.CompareAndSwap(orphaned, working)
	r.ended()
}

// ended notes that the request has ended without the app. Under the session's lock.
func (r *Request) ended() {
	w, s := &r.work, r.s
	if w.state.CompareAndSwap(waiting, orphaned) || w.state.Load() != working {
		return
	}
	if s.stale == nil {
		s.stale = &tally{all: s.engine.stale}
	}
	s.stale.add(1)
	// An app that has let go of the request, and so can never answer, has ended with it.
	w.lost = runtime.AddCleanup(r, func(t *tally) { t.add(-1) }, s.stale)
	if !w.state.CompareAndSwap(working, stale) { // it answers just now
		w.lost.Stop()
		s.stale.add(-1)
	}
}

// Returned notes that the app has answered, even if its answer comes too late.
func (r *Request) Returned() {
	if r.work.state.Swap(returned) != stale {
		return
	}
	r.work.lost.Stop()
	r.s.stale.add(-1)
	runtime.KeepAlive(r)
}
