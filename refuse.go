package rejoin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// refusal is an error that the transport itself answers. Nothing is kept of a refused request.
type refusal struct {
	status  int
	code    int
	message string
	data    string // JSON; "": none
	allow   string // the header Allow; "": none
	// encoding is the Content-Encoding that is allowed, if the request had another.
	encoding string
	retry    bool // send Retry-After
	hold     bool // a GET is answered by a stream that ends at once: at an error clients give their stream up
}

// refuse answers with a JSON-RPC error that says what was wrong. It carries the id of the request, if there is one: without it the official Go
// client ends its session. If the session is gone, the id is null: clients take an error with an id for the end of that request only, but all
// requests of the session have ended.
func (srv *Server) refuse(w http.ResponseWriter, f *refusal, id []byte) {
	if f.code == codeSession {
		id = nil
	}
	srv.stats.refused.Add(1)
	if f.status == http.StatusMisdirectedRequest {
		srv.stats.misdirected.Add(1)
	}
	h := w.Header()
	if f.allow != "" {
		h.Set("Allow", f.allow)
	}
	if f.encoding != "" {
		h.Set("Accept-Encoding", f.encoding) // RFC 9110, 15.5.16
	}
	if f.retry {
		h.Set("Retry-After", "1")
	}
	out := respond.New(w, srv.cfg.WriteTimeout)
	_ = out.JSON(f.status, jsonrpc.AppendError(nil, id, f.code, f.message, []byte(f.data))) // it fails if the client has disconnected
}

// answerEmpty answers without a body.
func (srv *Server) answerEmpty(w http.ResponseWriter, status int) {
	out := respond.New(w, srv.cfg.WriteTimeout)
	out.Empty(status)
}

func badRequest(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, code: CodeInvalidRequest, message: fmt.Sprintf(format, args...)}
}

// legacyVersions are the versions of the legacy era, newest first.
var legacyVersions = func() (names []string) {
	for _, v := range core.Versions {
		names = append(names, v.Name)
	}
	return names
}()

var supportedData = supportedJSON(legacyVersions)

func supportedJSON(versions []string) string {
	return `{"supported":["` + strings.Join(versions, `","`) + `"]}`
}

// versions returns all versions that are served, newest first.
func (srv *Server) versions() []string {
	switch srv.cfg.Eras {
	case EraDefault, EraBoth:
		return append([]string{core.FirstModern}, legacyVersions...)
	case EraModern:
		return []string{core.FirstModern}
	}
	return legacyVersions
}

// supported returns the data of a refusal of an unknown version.
func (srv *Server) supported() string { return supportedJSON(srv.versions()) }

// unknownVersionData is supported with the version that the client named, in the form of the modern era.
func (srv *Server) unknownVersionData(version string) string {
	return strings.TrimSuffix(srv.supported(), "}") + `,"requested":` + string(jsonrpc.AppendString(nil, version[:min(len(version), 64)])) + "}"
}

const unknownVersion = "unknown protocol version; this server speaks those in data.supported"

var (
	refuseUnknownSession = refusal{
		status: http.StatusNotFound, code: codeSession, message: "no such session: it has ended, or was never opened; send initialize",
	}
	// refuseUnknownTask is also the answer for the tasks of others, so that ids cannot be probed.
	refuseUnknownTask = refusal{status: http.StatusBadRequest, code: CodeInvalidParams, message: "no such task: it has expired, or there never was one"}
	refuseStoreFailed = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "the event store failed to return the result; ask again",
		data: `{"reason":"` + ReasonStore + `"}`, retry: true,
	}
	refuseDraining = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "the server is shutting down; try again", retry: true,
	}
	refuseAway = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "the sessions of this cluster cannot be reached now; try again",
		retry: true, hold: true,
	}
	// No client sees this one. Another process has adopted the session at the same moment, or has to do so now: the search is made again.
	refuseOvertaken = refuseAway
	// No client sees this one: the process that has sent the request looks once more where the session is.
	refuseMisdirected = refusal{
		status: http.StatusMisdirectedRequest, code: codeServer, message: "this process does not own the session that the request was forwarded for",
	}
	refuseUnsearched = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "too many unknown session ids are asked for; try again", retry: true, hold: true,
	}
	refuseUnreachable = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "the process that owns the session cannot be reached now; try again",
		data: `{"reason":"` + ReasonUnreachable + `"}`, retry: true, hold: true,
	}
	refuseOwnerLost = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "the process that owns the session was lost; the message may have reached it",
		data: `{"reason":"` + ReasonOwnerLost + `"}`, retry: true, hold: true,
	}
	refuseForeign = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, retry: true, hold: true,
		message: "the process that owns the session was asked, and something in between has answered; try again",
	}
	refuseSelf = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "Cluster.Self of this process is the address of another one", retry: true,
	}
	refuseFull = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "too many sessions (Config.MaxSessions); try again later", retry: true,
		hold: true, // the session waits for its next owner, and this process has too many
	}
	refuseTasksFull = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "too many tasks (Config.Tasks.Max); try again later", retry: true,
	}
	refuseUnreturned = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, retry: true,
		message: "too many requests that have ended are still being worked on (Config.MaxSessions); try again later",
	}
	refuseNoStandalone = refusal{
		status: http.StatusMethodNotAllowed, code: CodeInvalidRequest, allow: "POST, DELETE",
		message: "no standalone stream is offered here (Config.NoStandalone, or a response writer that cannot flush)",
	}
	refuseMethod = refusal{
		status: http.StatusMethodNotAllowed, code: CodeInvalidRequest, allow: "GET, POST, DELETE", message: "use GET, POST or DELETE",
	}
	refuseModernMethod = refusal{
		status: http.StatusMethodNotAllowed, code: CodeInvalidRequest, allow: "POST", message: "use POST: only the modern era is served (Config.Eras)",
	}
	refuseUnread      = *badRequest("the body could not be read")
	refuseTwoVersions = *badRequest("two different values of %s", versionHeader)
	refuseTwoSessions = *badRequest("two different values of %s", sessionHeader)
	refuseNoSession   = *badRequest("%s is missing: send initialize first", sessionHeader)
	refuseBatch       = *badRequest("batches exist only in version 2025-03-26")
	refuseLongBatch   = *badRequest("a batch of more than %d messages", maxBatch)
	refuseLongID      = *badRequest("the id is longer than %d bytes", maxIDBytes)
	refuseLargeBody   = refusal{
		status: http.StatusRequestEntityTooLarge, code: CodeInvalidRequest, message: "the body is too large (Config.MaxBodyBytes, or a middleware's limit)",
	}
	refuseLargeInitialize = refusal{
		status: http.StatusRequestEntityTooLarge, code: CodeInvalidRequest, message: "initialize is larger than 64 KiB",
	}
	refuseType = refusal{
		status: http.StatusUnsupportedMediaType, code: CodeInvalidRequest, message: "Content-Type must be application/json",
	}
	refuseEncoding = refusal{
		status: http.StatusUnsupportedMediaType, code: CodeInvalidRequest, message: "Content-Encoding is not supported: send the body as it is",
		encoding: "identity",
	}
	refuseNoJSON = refusal{
		status: http.StatusNotAcceptable, code: CodeInvalidRequest, message: "Accept must allow application/json: initialize is answered with it",
	}
	refuseNoStream = refusal{status: http.StatusNotAcceptable, code: CodeInvalidRequest, message: "Accept must allow text/event-stream"}
	refuseAccept   = refusal{
		status: http.StatusNotAcceptable, code: CodeInvalidRequest,
		message: "Accept must allow application/json or text/event-stream, and should allow both",
	}
	refuseLongHeader = refusal{
		status: http.StatusRequestHeaderFieldsTooLarge, code: CodeInvalidRequest,
		message: fmt.Sprintf("the header is larger than %d KiB, counting 32 bytes for each field beside its name and value", door.MaxHeaderBytes>>10),
	}
	// This error code is not one that the modern era defines. That makes every client of both eras fall back to initialize. EraDefault answers
	// with the same bytes as EraLegacy.
	refuseModern = refusal{
		status: http.StatusBadRequest, code: CodeInvalidRequest, data: supportedData,
		message: "this server speaks " + strings.Join(legacyVersions, ", ") + " (Config.Eras): send initialize",
	}
)

// refuseLegacyMethod refuses an HTTP method that the modern era does not have.
func refuseLegacyMethod(method string) *refusal {
	f := refuseModernMethod
	f.message = "there is no " + method + " in this version: use POST"
	return &f
}

// refusalFrom refuses a modern request with an error.
func refusalFrom(e *Error) *refusal {
	return &refusal{status: modernStatus(e), code: e.Code, message: e.Message, data: string(e.Data)}
}

// refusalOf returns the answer for the reason for which the machine refused a connection.
func refusalOf(why core.Reason) *refusal {
	switch why {
	case core.Duplicate:
		return badRequest("a request with this id is in flight")
	case core.TooMany:
		return &refusal{
			status: http.StatusTooManyRequests, code: codeServer, retry: true,
			message: "too many requests are in flight in this session (Config.MaxConcurrent)",
		}
	case core.Stuck:
		return &refusal{
			status: http.StatusTooManyRequests, code: codeServer, retry: true,
			message: "too many requests of this session that have ended, as by a cancellation, are still being worked on (Config.MaxConcurrent)",
		}
	case core.Draining, core.Shutdown: // Shutdown: only while initialize is being answered
		return &refuseDraining
	case core.StoreFailed, core.Moved: // the first only while initialize is being answered
		return &refuseAway
	case core.NoStandalone:
		return &refuseNoStandalone
	case core.Unknown:
		f := badRequest("Last-Event-ID: this session never sent such an event id")
		f.data = `{"reason":"` + ReasonUnknown + `"}`
		return f
	}
	return &refuseUnknownSession
}

// connectionRefusal returns the answer to a connection that the machine refused: f, or an empty response with status if f is nil.
func connectionRefusal(w http.ResponseWriter, why core.Reason) (status int, f *refusal) {
	switch why {
	case core.Cancelled:
		return http.StatusAccepted, nil
	case core.NothingLeft:
		// By the SSE standard 204 means: do not reconnect.
		w.Header().Set("Content-Type", "text/event-stream")
		return http.StatusNoContent, nil
	}
	return 0, refusalOf(why)
}
