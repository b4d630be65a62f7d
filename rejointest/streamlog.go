package rejointest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// streamLog is what a client has received of one stream, over all its connections. To it event ids are opaque: from the order in which ids
// and messages come it sees what is missing and what came twice.
type streamLog struct {
	messages []entry        // each once
	at       int            // how many of them come before what the current connection reads next
	ids      []string       // as they came
	seen     map[string]int // for each event id: how many messages there were when it came
	cursor   string         // the last event id
	retry    time.Duration  // the last one; negative: none yet
}

type entry struct {
	id   string // "" if the server gave none
	data json.RawMessage
}

func newStreamLog() streamLog { return streamLog{seen: map[string]int{}, retry: -1} }

// rewind sets the event after which the next connection reads. An id that never came counts as the last one.
func (l *streamLog) rewind(cursor string) {
	at, ok := l.seen[cursor]
	if !ok {
		at = len(l.messages)
	}
	l.at = at
}

// add adds the next event of the current connection. It returns its message if that is a new one, or what is wrong.
func (l *streamLog) add(ev sse.Event) (message json.RawMessage, fault string) {
	if ev.Retry >= 0 {
		l.retry = ev.Retry
	}
	switch {
	case ev.Name != "" && ev.Name != "message":
		return nil, fmt.Sprintf("an event of type %q: clients read only messages", ev.Name)
	case ev.HasID && ev.ID == "":
		return nil, "an empty event id: it takes the client's cursor away"
	}
	_, known := l.seen[ev.ID]
	known = known && ev.HasID
	if ev.HasID {
		l.ids, l.cursor = append(l.ids, ev.ID), ev.ID
	}
	if len(ev.Data) == 0 {
		if known {
			return nil, fmt.Sprintf("the id of a primer, %q, came before: some clients count that as no progress", ev.ID)
		}
		l.mark(ev)
		return nil, ""
	}
	if l.at < len(l.messages) {
		if want := l.messages[l.at]; (want.id == ev.ID || want.id == "" && !known) && bytes.Equal(want.data, ev.Data) {
			l.messages[l.at].id = ev.ID // an event has no id while the store fails, and may have one in a replay
			l.at++
			l.mark(ev)
			return nil, ""
		} else if !expired(ev.Data) {
			return nil, fmt.Sprintf("event %q came, with %s, where a replay should have brought %q, with %s", ev.ID, ev.Data, want.id, want.data)
		}
	} else if known {
		return nil, fmt.Sprintf("event %q came twice: %s", ev.ID, ev.Data)
	}
	l.messages = append(l.messages, entry{ev.ID, ev.Data})
	l.at = len(l.messages)
	l.mark(ev)
	return ev.Data, ""
}

func (l *streamLog) mark(ev sse.Event) {
	if ev.HasID {
		l.seen[ev.ID] = l.at
	}
}

// expired reports whether a message is the error that replaces events which the server no longer has, has lost, or never had.
func expired(data []byte) bool {
	reason, _ := jsonrpc.Field(data, "error", "data", "reason")
	switch string(reason) {
	case `"expired"`, `"store"`, `"owner_lost"`:
		return true
	}
	return false
}
