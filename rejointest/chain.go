package rejointest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// chain is what a client has of one stream, over all connections that read it. It looks into no event id: whether something is
// missing or doubled follows from the order in which ids and messages come.
type chain struct {
	log    []entry        // the messages, each once
	at     int            // how many of them the current connection is past
	ids    []string       // as they came
	seen   map[string]int // by event id: how many messages its holder has
	cursor string         // the last event id
	retry  time.Duration  // the last one; negative: none yet
}

type entry struct {
	id   string // "" where the server gave none
	data json.RawMessage
}

func newChain() chain { return chain{seen: map[string]int{}, retry: -1} }

// rewind says after which event the next connection reads. One that is not known counts as the last.
func (k *chain) rewind(cursor string) {
	at, ok := k.seen[cursor]
	if !ok {
		at = len(k.log)
	}
	k.at = at
}

// add takes the next event of the current connection. It returns the message in it, if it is a new one, or what is wrong.
func (k *chain) add(ev sse.Event) (message json.RawMessage, fault string) {
	if ev.Retry >= 0 {
		k.retry = ev.Retry
	}
	switch {
	case ev.Name != "" && ev.Name != "message":
		return nil, fmt.Sprintf("an event of type %q: clients read only messages", ev.Name)
	case ev.HasID && ev.ID == "":
		return nil, "an empty event id: it takes the client's cursor away"
	}
	_, known := k.seen[ev.ID]
	known = known && ev.HasID
	if ev.HasID {
		k.ids, k.cursor = append(k.ids, ev.ID), ev.ID
	}
	if len(ev.Data) == 0 {
		if known {
			return nil, fmt.Sprintf("the id of a primer, %q, came before: some clients count that as no progress", ev.ID)
		}
		k.mark(ev)
		return nil, ""
	}
	if k.at < len(k.log) {
		if want := k.log[k.at]; (want.id == ev.ID || want.id == "" && !known) && bytes.Equal(want.data, ev.Data) {
			k.log[k.at].id = ev.ID // one that had none, because the store had failed, may have one when that has recovered
			k.at++
			k.mark(ev)
			return nil, ""
		} else if !expired(ev.Data) {
			return nil, fmt.Sprintf("event %q came, with %s, where a replay should have brought %q, with %s", ev.ID, ev.Data, want.id, want.data)
		}
	} else if known {
		return nil, fmt.Sprintf("event %q came twice: %s", ev.ID, ev.Data)
	}
	k.log = append(k.log, entry{ev.ID, ev.Data})
	k.at = len(k.log)
	k.mark(ev)
	return ev.Data, ""
}

func (k *chain) mark(ev sse.Event) {
	if ev.HasID {
		k.seen[ev.ID] = k.at
	}
}

// expired reports whether a message says that the events after a cursor are gone, or lost; it takes the place of the first of them.
func expired(data []byte) bool {
	reason, _ := jsonrpc.Field(data, "error", "data", "reason")
	return string(reason) == `"expired"` || string(reason) == `"store"`
}
