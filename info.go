package rejoin

import (
	"encoding/json"
	"time"
)

// SessionInfo describes a session at one moment.
type SessionInfo struct {
	Ref       SessionRef
	Principal string
	Version   string          // negotiated protocol version
	Polls     bool            // the client can be disconnected
	Client    json.RawMessage // clientInfo of initialize; if that is over 8 KiB, only its name, title and version
	Created   time.Time
	Active    time.Time    // when something happened last in the session
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
}

func (s *Session) info() (SessionInfo, bool) {
	at, ok := s.engine.Snapshot()
	if !ok || !at.Ready {
		return SessionInfo{}, false
	}
	out := SessionInfo{
		Ref: s.ref, Principal: s.Principal(), Version: at.Version, Polls: at.Polls, Client: s.clientInfo(), Created: s.engine.Created(), Active: at.Active,
		Streams: make([]StreamInfo, 0, len(at.Streams)),
	}
	for i := range at.Streams {
		st := &at.Streams[i]
		info := StreamInfo{
			Ref: s.ref.stream(st.Number), Method: st.Method, State: st.State.String(), Since: st.Since, Events: st.Events, Bytes: st.Bytes,
		}
		if st.RequestID != "" {
			info.RequestID = json.RawMessage(st.RequestID)
		}
		out.Streams = append(out.Streams, info)
	}
	return out, true
}
