package rejoin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Stats are counters since NewServer, and gauges where the name has no past tense. Of requests of the modern era Connections counts
// those that are being served, Refused and WritesTimedOut what they say; nothing else does.
type Stats struct {
	Sessions, Streams, Connections, Parked, StoredBytes int64

	Opened    int64 // sessions
	Closed    int64 // streams whose client was let go
	Resumed   int64 // streams whose client came back
	TakenOver int64 // connections that a newer one replaced
	Abandoned int64 // requests whose client did not come back
	Doubted   int64 // sessions whose client did not come back in time, so that it is let go no more
	Moved     int64 // sessions that another process took over (eventstore.ErrFenced)

	Evicted        int64 // events that the store gave up for want of room
	Expired        int64 // cursors whose events were gone
	StoreFailed    int64 // operations of the store, and times that it was found to have lost events
	Refused        int64 // requests that the transport refused
	WritesTimedOut int64 // connections whose client had stopped reading
	Full           int64 // messages that the store had no room for
}

type counters struct {
	opened, closed, resumed, takenOver, abandoned, moved atomic.Int64
	doubted                                              atomic.Int64
	expired, storeFailed, refused, writesTimedOut, full  atomic.Int64
}

func (c *counters) noteWriteError(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.writesTimedOut.Add(1)
	}
}

// Stats returns the counters; a plain struct for expvar, Prometheus or a log line.
func (s *Server) Stats() Stats {
	c := &s.stats
	out := Stats{
		Opened: c.opened.Load(), Closed: c.closed.Load(), Resumed: c.resumed.Load(), TakenOver: c.takenOver.Load(),
		Abandoned: c.abandoned.Load(), Doubted: c.doubted.Load(), Moved: c.moved.Load(), Expired: c.expired.Load(),
		StoreFailed: c.storeFailed.Load(), Refused: c.refused.Load(),
		WritesTimedOut: c.writesTimedOut.Load(), Full: c.full.Load(),
	}
	if u := eventstore.AccountantOf(s.cfg.Store); u != nil {
		out.StoredBytes, out.Evicted = u.Usage()
	}
	out.Connections = s.modern.Load() + s.listens.Load()
	for _, n := range s.all() {
		n.mu.Lock()
		if n.over {
			n.mu.Unlock()
			continue
		}
		out.Sessions++
		out.Connections += int64(len(n.conns))
		for i, st := range n.streams {
			if st == nil {
				continue
			}
			out.Streams++
			if i != 0 && st.conn == nil && n.m.Inspect(int32(i)).State == core.Parked {
				out.Parked++
			}
		}
		n.mu.Unlock()
	}
	return out
}

// SessionInfo is a snapshot.
type SessionInfo struct {
	Ref             Ref
	Principal       string
	Version         string          // negotiated protocol version
	Polls           bool            // its client is let go where CloseAfter or a tool says so
	Client          json.RawMessage // clientInfo of initialize; of one over 8 KiB name, title and version
	Created, Active time.Time
	Streams         []StreamInfo // the standalone stream first
}

// StreamInfo is a snapshot.
type StreamInfo struct {
	Ref       Ref
	RequestID json.RawMessage // nil: the standalone stream, or a batch
	Method    string
	State     string // pending, live, parked, sealed
	Since     time.Time
	Events    int
	Bytes     int64
}

func (n *Session) info() (SessionInfo, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over || !n.ready {
		return SessionInfo{}, false
	}
	out := SessionInfo{Ref: n.ref, Principal: n.principal, Version: n.version, Polls: n.m.CanPoll(), Client: n.clientInfo(), Created: n.created, Active: n.active}
	for i, st := range n.streams {
		if st == nil {
			continue
		}
		at := n.m.Inspect(int32(i))
		info := StreamInfo{Ref: st.ref(n), State: at.State.String(), Since: at.Since, Events: st.events, Bytes: st.bytes}
		if st.method != "" {
			info.Method = st.method
		}
		if st.request != "" {
			info.RequestID = json.RawMessage(st.request)
		}
		out.Streams = append(out.Streams, info)
	}
	return out, true
}

// streamID finds a stream by its ref.
func (n *Session) streamID(ref Ref) (id core.StreamID, ok bool) {
	number, _ := strings.CutPrefix(string(ref), string(n.ref)+"-")
	at, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return id, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, st := range n.streams {
		if st != nil && uint64(st.n) == at && st.ref(n) == ref {
			return st.id, true
		}
	}
	return id, false
}

// open returns the streams that somebody reads.
func (n *Session) open() (ids []core.StreamID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, st := range n.streams {
		if st != nil && st.conn != nil {
			ids = append(ids, st.id)
		}
	}
	return ids
}

// said are the things that are said once in a process's life, because they would be said at each request.
type said int

const (
	saidNoFlush said = iota
	saidNoDeadline
	saidNotResumable
	saidModern
	saidFull
	saidUnsent
	saidStore
	saidNothing
	saidNoTools
	saidMoved
	saidInvalidData
	saidKinds
)

func (s *Server) sayOnce(what said, message string, args ...any) {
	if s.said[what].CompareAndSwap(false, true) {
		s.log.Warn(message+" (said once)", args...)
	}
}

func (s *Server) logNoFlush(r *http.Request) {
	s.sayOnce(saidNoFlush, "rejoin: a middleware's response writer cannot flush, so nothing can be streamed through it", "path", r.URL.Path)
}

// logHeldBack names the middleware by its writer.
func (s *Server) logHeldBack(n *Session, w http.ResponseWriter) {
	s.sayOnce(saidNoFlush, "rejoin: a middleware holds back what is flushed through it: streams are closed at once, and their clients have to poll",
		"session", n.ref, "writer", fmt.Sprintf("%T", w))
}

func (s *Server) logNotResumable(n *Session) {
	if s.said[saidNotResumable].Load() { // who the client is takes a while to find out
		return
	}
	s.sayOnce(saidNotResumable, "rejoin: CloseStream has no effect for clients that cannot poll", "session", n.ref, "client", clip(n.Client().Name), "version", n.Version())
}

func (s *Server) logInvalidData(c *Call) {
	s.sayOnce(saidInvalidData, "rejoin: the data of an error is not valid JSON, and was sent as a string", "method", c.method, "session", c.s.ref)
}

func (s *Server) logFull(n *Session) {
	s.stats.full.Add(1)
	s.sayOnce(saidFull, "rejoin: no room for a message (eventstore.MemoryConfig)", "session", n.ref)
}

// logUnsent notes a message whose sender was told nothing, because it had to wait for its turn.
func (s *Server) logUnsent(n *Session, err error) {
	s.sayOnce(saidUnsent, "rejoin: a message was lost after its sender had gone on", "session", n.ref, "error", err)
}

func (s *Server) logStoreFailed(n *Session, err error) {
	s.stats.storeFailed.Add(1)
	s.sayOnce(saidStore, "rejoin: the event store failed; the stream goes on without it, and the store is tried again", "session", n.ref, "error", err)
}

// logMoved notes that the store has told us that another process owns a session.
func (s *Server) logMoved(n *Session) {
	s.stats.moved.Add(1)
	s.sayOnce(saidMoved, "rejoin: another process owns the session now; it has ended here", "session", n.ref)
}

// logNothing tells of a server that has nothing to call, read or complete: clients ask it for nothing. result answers initialize.
func (s *Server) logNothing(n *Session, result json.RawMessage) {
	capabilities, _ := jsonrpc.Field(result, "capabilities")
	_, tools := jsonrpc.Field(capabilities, "tools")
	n.mu.Lock()
	n.tools = tools
	n.mu.Unlock()
	for _, name := range [...]string{"tools", "resources", "prompts", "completions", "tasks", "extensions", "experimental"} {
		if _, offers := jsonrpc.Field(capabilities, name); offers {
			return
		}
	}
	s.sayOnce(saidNothing, "rejoin: the server of a session offers nothing: its answer to initialize announces no tools, resources, prompts or completions, "+
		"so clients will not ask for them", "session", n.ref)
}

// logNoTools tells of a server that announced tools and has none, such as one that was made for initialize alone. result answers
// tools/list.
func (s *Server) logNoTools(n *Session, params, result json.RawMessage) {
	tools, _ := jsonrpc.Field(result, "tools")
	_, later := jsonrpc.Field(params, "cursor")
	_, more := jsonrpc.Field(result, "nextCursor")
	if later || more || len(tools) < 2 || len(bytes.TrimSpace(tools[1:len(tools)-1])) > 0 {
		return
	}
	n.mu.Lock()
	announced := n.tools
	n.mu.Unlock()
	if announced {
		s.sayOnce(saidNoTools, "rejoin: the server of a session announces tools and lists none: it must have all that the session will ask for, "+
			"not only what the request that opened the session needs (gosdk.NewFunc)", "session", n.ref)
	}
}

// logGap notes that events of a standalone stream were dropped before their client came for them.
func (s *Server) logGap(n *Session, first, last uint64) {
	s.stats.expired.Add(1)
	s.log.Warn("rejoin: events of a standalone stream were dropped before its client came back", "session", n.ref, "first", first, "last", last)
}

// recovered is deferred around user code.
func (s *Server) recovered(where string, then func()) {
	if v := recover(); v != nil {
		s.log.Error("rejoin: panic in "+where, "panic", v, "stack", strings.TrimSpace(string(debug.Stack())))
		then()
	}
}
