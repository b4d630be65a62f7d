package rejoin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/rejoin-mcp/rejoin/internal/hop"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/safe"
)

// warning is a kind of warning that a server logs only once, because it would come with each request.
type warning int

const (
	warnNoFlush warning = iota
	warnNoDeadline
	warnNotResumable
	warnModernClose
	warnTasksFull
	warnFull
	warnUnsent
	warnStoreFailed
	warnNothingOffered
	warnNoTools
	warnMoved
	warnFormat
	warnInvalidData
	warnForeign
	warnSelfUnknown
	warningKinds
)

// warnOnce logs a warning unless one of that kind was logged before.
func (srv *Server) warnOnce(what warning, message string, args ...any) {
	if srv.warned[what].CompareAndSwap(false, true) {
		srv.log.Warn(message+" (said once)", args...)
	}
}

func (srv *Server) logNoFlush(r *http.Request) {
	srv.warnOnce(warnNoFlush, "rejoin: a middleware's response writer cannot flush, so nothing can be streamed through it", "path", r.URL.Path)
}

// logHeldBack names the type of the middleware's writer.
func (srv *Server) logHeldBack(s *Session, writer string) {
	srv.warnOnce(warnNoFlush, heldBackMessage, "session", s.ref, "writer", writer)
}

const heldBackMessage = "rejoin: a middleware holds back what is flushed through it: streams are closed at once, and their clients have to poll"

// maxHopWarnings limits the lines per minute about requests that were forwarded in vain: many may wait for an owner that is lost. Stats counts all.
const maxHopWarnings = 20

// logUnreachable reports a request that could not be forwarded.
func (srv *Server) logUnreachable(to *hop.Place, err error) {
	if srv.node.warnings.Take() {
		srv.log.Warn("rejoin: the process that owns a session could not be reached, so a request was not forwarded", "process", to.Owner.Self, "error", err)
	}
}

// logOwnerLost reports a request that was forwarded, and not answered to its end.
func (srv *Server) logOwnerLost(to *hop.Place, err error) {
	if srv.node.warnings.Take() {
		srv.log.Warn("rejoin: the process that owns a session was lost while it answered a request", "process", to.Owner.Self, "error", err)
	}
}

func (srv *Server) logNotResumable(s *Session) {
	if srv.warned[warnNotResumable].Load() { // saves finding out who the client is
		return
	}
	srv.warnOnce(warnNotResumable, "rejoin: CloseStream has no effect for clients that cannot poll", "session", s.ref,
		"client", shorten(s.Client().Name), "version", s.Version())
}

func (srv *Server) logInvalidData(method string, session SessionRef) {
	srv.warnOnce(warnInvalidData, "rejoin: the data of an error is not valid JSON, and was sent as a string", "method", method, "session", session)
}

func (srv *Server) logFull(s *Session) {
	srv.stats.full.Add(1)
	srv.warnOnce(warnFull, "rejoin: the event store has no room for a message (eventstore.MemoryConfig)", "session", s.ref)
}

// logUnsent reports a message that was queued, so that its sender got no error, and was lost then.
func (srv *Server) logUnsent(s *Session, err error) {
	srv.warnOnce(warnUnsent, "rejoin: a message was lost, and its sender could not be told any more", "session", s.ref, "error", err)
}

func (srv *Server) logStoreFailed(s *Session, err error) {
	srv.warnOnce(warnStoreFailed, "rejoin: the event store failed; the stream goes on without it, and the store is tried again", "session", s.ref, "error", err)
}

func (srv *Server) logTaskStoreFailed(err error) {
	srv.warnOnce(warnStoreFailed, "rejoin: the event store failed for a task: its result is kept in memory, or its client is told to ask again", "error", err)
}

func (srv *Server) logTasksFull() {
	srv.warnOnce(warnTasksFull, "rejoin: a call did not become a task, because there are as many tasks as there may be (Config.Tasks.Max, MaxPerPrincipal)")
}

// logMoved reports that, as the store says, another process owns a session.
func (srv *Server) logMoved(s *Session) {
	srv.stats.moved.Add(1)
	srv.warnOnce(warnMoved, "rejoin: another process owns the session now, so it has ended in this process", "session", s.ref)
}

// logDirectory reports an operation of the directory that has failed.
func (srv *Server) logDirectory(s *Session, what string, err error) {
	srv.log.Error("rejoin: "+what, "session", s.ref, "error", err)
}

// logNothingOffered reports an MCP server that announces nothing to call, read or complete. Clients send no requests to it. result is its
// answer to initialize.
func (srv *Server) logNothingOffered(s *Session, result json.RawMessage) {
	capabilities, _ := jsonrpc.Field(result, "capabilities")
	if _, tools := jsonrpc.Field(capabilities, "tools"); tools {
		s.announcesTools.Store(true)
		return
	}
	if srv.warned[warnNothingOffered].Load() { // saves looking for the rest
		return
	}
	for _, name := range [...]string{"resources", "prompts", "completions", "tasks", "extensions", "experimental"} {
		if _, offers := jsonrpc.Field(capabilities, name); offers {
			return
		}
	}
	srv.warnOnce(warnNothingOffered, "rejoin: the server of a session offers nothing: its answer to initialize announces no tools, resources, "+
		"prompts or completions, so clients do not ask for them", "session", s.ref)
}

// logNoTools reports an MCP server that announced tools and lists none, for example because it was made for initialize only. params and result
// are those of tools/list.
func (srv *Server) logNoTools(s *Session, params, result json.RawMessage) {
	tools, _ := jsonrpc.Field(result, "tools")
	_, later := jsonrpc.Field(params, "cursor")
	_, more := jsonrpc.Field(result, "nextCursor")
	if later || more || len(tools) < 2 || len(bytes.TrimSpace(tools[1:len(tools)-1])) > 0 {
		return
	}
	if s.announcesTools.Load() {
		srv.warnOnce(warnNoTools, "rejoin: the server of a session announces tools and lists none: it must have all tools of the session, "+
			"not only what the request that opens the session needs (gosdk.NewFunc)", "session", s.ref)
	}
}

// logGap reports that events of a standalone stream were dropped before their client came for them.
func (srv *Server) logGap(s *Session, first, last uint64) {
	srv.log.Warn("rejoin: events of a standalone stream were dropped before its client came back", "session", s.ref, "first", first, "last", last)
}

// logStoreLost reports that the store has lost events of a stream.
func (srv *Server) logStoreLost(s *Session, stream StreamRef, before uint64, err error) {
	srv.log.Error("rejoin: the event store has lost events of a stream; clients that have not read them are told", "session", s.ref,
		"stream", stream, "before", before, "error", err)
}

// recovered is deferred around code of the user. If that panics, it logs the panic and calls then.
func (srv *Server) recovered(where string, then func()) {
	if v := recover(); v != nil {
		srv.logPanic(where, v, safe.Stack())
		then()
	}
}

func (srv *Server) logPanic(where string, value any, stack string) {
	srv.log.Error("rejoin: panic in "+where, "panic", value, "stack", stack)
}

// maxLoggedClients limits the names and versions that logMissedPoll remembers.
const maxLoggedClients = 100

// logMissedPoll names a client that was disconnected and has not come back: once for each name and version, up to maxLoggedClients.
func (srv *Server) logMissedPoll(s *Session) {
	srv.stats.doubted.Add(1)
	c := s.Client()
	key := [2]string{shorten(c.Name), shorten(c.Version)}
	srv.loggedMu.Lock()
	_, logged := srv.loggedClients[key]
	if logged = logged || len(srv.loggedClients) >= maxLoggedClients; !logged {
		srv.loggedClients[key] = struct{}{}
	}
	srv.loggedMu.Unlock()
	if logged {
		return
	}
	srv.log.Warn("rejoin: a client was told to come back and did not, so CloseAfter and CloseStream have no effect in its session until it does; "+
		"if it never does, say so with Config.CanPoll, which also saves the first call of each session (said once for each client and version)",
		"client", key[0], "version", key[1], "protocol", c.Protocol, "session", s.ref)
}

// shorten shortens what a client chose for a log.
func shorten(s string) string { return shortenTo(s, 100) }

func shortenTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
