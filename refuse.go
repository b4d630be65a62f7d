package rejoin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// refusal is an answer of the transport itself. It leaves nothing behind.
type refusal struct {
	status  int
	code    int
	message string
	data    string // JSON
	id      []byte // of the request, as written; nil: null
	allow   string
	// encoding is the coding that a body may have, where it had another.
	encoding string
	retry    bool // say Retry-After
}

func (f refusal) withID(id []byte) refusal {
	f.id = id
	return f
}

// refuse answers. Each refusal is a JSON-RPC error that says what was wrong; those of a request carry its id, without which the
// official Go client ends its session.
func (s *Server) refuse(w http.ResponseWriter, f refusal) {
	s.stats.refused.Add(1)
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
	out := newWriter(w, s.cfg.WriteTimeout)
	_ = out.json(f.status, jsonrpc.AppendError(nil, f.id, f.code, f.message, []byte(f.data))) // the client may be gone
}

// empty answers without a body.
func (s *Server) empty(w http.ResponseWriter, status int) {
	out := newWriter(w, s.cfg.WriteTimeout)
	out.empty(status)
}

func badRequest(format string, args ...any) refusal {
	return refusal{status: http.StatusBadRequest, code: CodeInvalidRequest, message: fmt.Sprintf(format, args...)}
}

// legacyVersions are named to whoever asks for another one.
var legacyVersions = func() (names []string) {
	for _, v := range core.Versions {
		names = append(names, v.Name)
	}
	return names
}()

var supportedData = supportedOf(legacyVersions)

func supportedOf(versions []string) string {
	return `{"supported":["` + strings.Join(versions, `","`) + `"]}`
}

// supported names all versions that are served, newest first, to whoever asked for another one.
func (s *Server) supported() string {
	switch s.cfg.Eras {
	case Both:
		return supportedOf(append([]string{core.FirstModern}, legacyVersions...))
	case Modern:
		return supportedOf([]string{core.FirstModern})
	}
	return supportedData
}

var (
	refuseUnknownSession = refusal{
		status: http.StatusNotFound, code: codeSession, message: "no such session: it has ended, or was never opened; send initialize",
	}
	refuseDraining = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "the server is shutting down; try again", retry: true,
	}
	refuseFull = refusal{
		status: http.StatusServiceUnavailable, code: codeServer, message: "too many sessions (Config.MaxSessions); try again later", retry: true,
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
	refuseTwoVersions = badRequest("two different values of %s", versionHeader)
	refuseBatch       = badRequest("batches exist only in version 2025-03-26")
	refuseLongID      = badRequest("the id is longer than %d bytes", maxIDBytes)
	// An error that is not one of the modern era's makes every client of both eras fall back to initialize.
	refuseModern = refusal{
		status: http.StatusBadRequest, code: CodeInvalidRequest, data: supportedData,
		message: "this server speaks " + strings.Join(legacyVersions, ", ") + " (Config.Eras): send initialize",
	}
)

// refuseLegacyMethod refuses a verb that the modern era does not know.
func refuseLegacyMethod(method string) refusal {
	f := refuseModernMethod
	f.message = "there is no " + method + " in this version: use POST"
	return f
}

// refusalOf is how the machine's refusal of a connection is answered.
func refusalOf(why core.Reason) refusal {
	switch why {
	case core.Duplicate:
		return badRequest("a request with this id is in flight")
	case core.TooMany:
		return refusal{
			status: http.StatusTooManyRequests, code: codeServer, retry: true,
			message: "too many requests are in flight in this session (Config.MaxConcurrent)",
		}
	case core.Draining, core.Shutdown: // the latter only while initialize is being answered
		return refuseDraining
	case core.NoStandalone:
		return refuseNoStandalone
	case core.Unknown:
		f := badRequest("Last-Event-ID: this session never sent such an event id")
		f.data = `{"reason":"unknown"}`
		return f
	}
	return refuseUnknownSession
}
