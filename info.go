package rejoin

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// SessionRef names a session in logs, metrics and admin routes. Unlike a session id it gives no access, so it is not a secret. It is URL-safe.
type SessionRef string

// StreamRef names a stream in the same places. It begins with the SessionRef of its session.
type StreamRef string

// stream returns the name of a stream of the session.
func (r SessionRef) stream(number uint32) StreamRef {
	return StreamRef(string(r) + "-" + strconv.FormatUint(uint64(number), 10))
}

// parts splits the name of a stream. ok is false if it is not such a name.
func (r StreamRef) parts() (session SessionRef, number uint32, ok bool) {
	at := strings.LastIndexByte(string(r), '-')
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(string(r[at+1:]), 10, 32)
	session, number = SessionRef(r[:at]), uint32(n)
	return session, number, err == nil && session.stream(number) == r
}

// SessionInfo describes a session at one moment.
type SessionInfo struct {
	Ref       SessionRef
	Principal string
	Version   string          // negotiated protocol version
	Polls     bool            // the client can be disconnected
	Client    json.RawMessage // clientInfo of initialize; if that is over 8 KiB, only its name, title and version
	Created   time.Time
	Active    time.Time    // when something happened last in the session
	Forwarded int64        // requests that came through other processes of the cluster (Config.Cluster)
	Streams   []StreamInfo // the standalone stream first
}

// StreamInfo describes a stream at one moment.
type StreamInfo struct {
	Ref       StreamRef
	RequestID json.RawMessage // nil: the standalone stream, or a batch
	Method    string          // of the first request; "": the standalone stream
	State     string          // "pending" (no head sent yet), "live" (a connection reads it), "parked" (no reader) or "sealed" (ended)
	Since     time.Time       // when the stream was made
	Events    int             // recorded so far
	Bytes     int64           // of those events
	Via       string          // Cluster.Self of the process that forwards its connection; "": its client is connected to this process, or not at all
}

func (s *Session) info() (SessionInfo, bool) {
	at, ok := s.engine.Snapshot()
	if !ok || !at.Ready {
		return SessionInfo{}, false
	}
	out := SessionInfo{
		Ref: s.ref, Principal: s.Principal(), Version: at.Version, Polls: at.Polls, Client: s.clientInfo(), Created: s.engine.Created(), Active: at.Active,
		Forwarded: int64(s.forwarded.Load()), Streams: make([]StreamInfo, 0, len(at.Streams)),
	}
	for i := range at.Streams {
		st := &at.Streams[i]
		info := StreamInfo{
			Ref: s.ref.stream(st.Number), Method: st.Method, State: st.State.String(), Since: st.Since, Events: st.Events, Bytes: st.Bytes, Via: st.Via,
		}
		if st.RequestID != "" {
			info.RequestID = json.RawMessage(st.RequestID)
		}
		out.Streams = append(out.Streams, info)
	}
	return out, true
}
