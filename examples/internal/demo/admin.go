package demo

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/rejoin-mcp/rejoin"
)

// Session is a session as an admin sees it. Its Ref gives no access to the session, so it may appear in logs and on pages; the ID may not.
type Session struct {
	Ref     rejoin.SessionRef `json:"ref"`
	User    string            `json:"user"`
	Streams []Stream          `json:"streams"`
}

// Stream is the stream of a request, or the standalone stream, which has no method.
type Stream struct {
	Ref    rejoin.StreamRef `json:"ref"`
	Method string           `json:"method,omitempty"`
	State  string           `json:"state"`
}

// Sessions lists a server's sessions, the oldest first.
func Sessions(srv *rejoin.Server) []Session {
	infos := slices.SortedFunc(srv.Sessions(), func(a, b rejoin.SessionInfo) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Ref, b.Ref))
	})
	list := make([]Session, 0, len(infos)) // an empty list is [], not null
	for _, info := range infos {
		session := Session{Ref: info.Ref, User: info.Principal, Streams: make([]Stream, 0, len(info.Streams))}
		for _, at := range info.Streams {
			session.Streams = append(session.Streams, Stream{Ref: at.Ref, Method: at.Method, State: at.State})
		}
		list = append(list, session)
	}
	return list
}

// Status is the HTTP status for what rejoin.Server.CloseStream returns.
func Status(err error) int {
	switch {
	case err == nil:
		return http.StatusNoContent
	case errors.Is(err, rejoin.ErrUnknown):
		return http.StatusNotFound
	default: // the client cannot poll, or the call has ended
		return http.StatusConflict
	}
}
