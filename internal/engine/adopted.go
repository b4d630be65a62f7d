package engine

import (
	"encoding/json"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Adopted is a session as the directory of a cluster has it, whose last owner is lost.
type Adopted struct {
	Identity

	Version string // negotiated
	Polls   bool
	Streams []AdoptedStream // in the order in which they were begun
}

// AdoptedStream is a log of such a session.
type AdoptedStream struct {
	Name, About string
	Backlog     bool
	First, Last uint64 // First is not used: a reader finds out
	Sealed      bool
}

// maxOlder limits the standalone streams of earlier owners that a session keeps. A cursor of one that it does not keep counts as none.
const maxOlder = 8

// Adopt is Restore for a session that the directory has. It reads the logs of batches that have not ended.
func (s *Session) Adopt(e *Engine, host Host, from *Adopted) {
	s.engine, s.host, s.id, s.owner = e, host, from.ID, from.Owner
	machine := &core.Snapshot{Version: from.Version, CanPoll: from.Polls, Standalone: NewStandalone()}
	r := &Restored{Machine: machine}
	for i := range from.Streams {
		at := &from.Streams[i]
		id, ok := ParseStreamName(from.ID, at.Name)
		var about aboutStream
		switch {
		case !ok || json.Unmarshal([]byte(at.About), &about) != nil: // it is not one of ours
		case at.Backlog:
			machine.Older = append(machine.Older, core.OlderStream{ID: id, Last: at.Last})
		default:
			one := core.StreamSnapshot{ID: id, Last: at.Last, Sealed: at.Sealed, Retain: about.Retain}
			for _, id := range about.Requests {
				one.Requests = append(one.Requests, core.Request{ID: string(id)})
			}
			more := RestoredStream{Number: about.Number, Method: about.Method}
			if !about.Batch && len(about.Requests) > 0 {
				more.RequestID = string(about.Requests[0])
			}
			if about.Batch && !at.Sealed && at.Last > 0 {
				more.Log = s.logOf(&stream{id: id, n: about.Number, named: at.Name + at.About})
				s.findResponses(more.Log, one.Requests)
			}
			machine.Streams, r.Streams = append(machine.Streams, one), append(r.Streams, more)
		}
	}
	over := machine.Older[:max(len(machine.Older)-maxOlder, 0)]
	machine.Older = machine.Older[len(over):]
	r.Older = make([]eventstore.Log, len(machine.Older))
	s.Restore(e, host, from.Identity, r)
	for i := range over {
		log := s.logOf(&stream{id: over[i].ID})
		e.aside(func() { s.dropLog(log) })
	}
}

// findResponses notes which requests of a batch have a response in its log. Where the log cannot be read, they count as lost with their owner.
func (s *Session) findResponses(log eventstore.Log, requests []core.Request) {
	key := func(id []byte) string { return string(jsonrpc.Key(id)) }
	byKey := make(map[string]*core.Request, len(requests))
	for i := range requests {
		byKey[key([]byte(requests[i].ID))] = &requests[i]
	}
	var window [64]eventstore.Event
	for after := uint64(0); ; {
		n, _, err := s.readLog(log, after, window[:])
		if err != nil || n == 0 {
			return
		}
		for _, e := range window[:n] {
			id, _ := jsonrpc.Field(e.Data, "id")
			_, asks := jsonrpc.Field(e.Data, "method")
			if r := byKey[key(id)]; r != nil && !asks {
				r.Seq = e.Seq
			}
		}
		after = window[n-1].Seq
	}
}
