package model_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

var markOf = regexp.MustCompile(`mark[0-9]+x`)

// finale answers everything that runs, polls each stream from as far back as the client can, and ends the sessions. Then must hold:
//   - every connection has ended, and every question was answered once;
//   - each stream has one message for each sequence, on all connections, and each connection has them without a gap;
//   - each message and each response is in one place: one sequence of one stream, or one JSON answer;
//   - the messages of a call before its response come in order, and all of them reach a client that can poll.
func (p *fuzzPlay) finale() {
	p.allAnswered()
	kit.Elapse(time.Second)
	streams := p.streams()
	for _, a := range p.actors {
		for _, s := range streams[a] {
			if !a.gone {
				s.last = p.send(a, http.MethodGet, "", "", s.earliest)
			}
		}
		if !a.gone && !hasStandalone(streams[a]) {
			p.send(a, http.MethodGet, "", "", "") // the backlog
		}
	}
	synctest.Wait()
	for _, a := range p.actors {
		status := p.send(a, http.MethodDelete, "", "", "").Status
		require.Equal(p.t, map[bool]int{false: http.StatusNoContent, true: http.StatusNotFound}[a.gone], status)
	}
	kit.Elapse(time.Second)
	for i, conn := range p.conns {
		conn.text()
		require.True(p.t, conn.Ended, "connection %d has not ended", i)
	}
	for _, n := range p.asked {
		require.Equal(p.t, 1, *n, "a question has one answer")
	}
	stats := p.server.Stats()
	require.Zero(p.t, stats.Sessions+stats.Streams+stats.Connections+stats.Parked+stats.StoredBytes)
	p.judge(streams)
}

// playedStream is what a client knows about a stream.
type playedStream struct {
	name, earliest string
	from           uint64 // the position of the primer of earliest
	standalone     bool
	messages       map[uint64]string
	last           *playedConn // the poll that read all of it
}

func hasStandalone(streams map[string]*playedStream) bool {
	for _, s := range streams {
		if s.standalone {
			return true
		}
	}
	return false
}

// streams parses what all connections have read.
func (p *fuzzPlay) streams() map[*actor]map[string]*playedStream {
	all := map[*actor]map[string]*playedStream{}
	for _, a := range p.actors {
		all[a] = map[string]*playedStream{}
	}
	for _, conn := range p.conns {
		text := conn.text()
		if !conn.streams() {
			continue
		}
		got := readStream(p.t, text, conn.polls)
		if got.stream == "" {
			continue
		}
		s := all[conn.actor][got.stream]
		if s == nil {
			s = &playedStream{name: got.stream, messages: map[uint64]string{}}
			all[conn.actor][got.stream] = s
		}
		s.standalone = s.standalone || conn.get && conn.cursor == ""
		for i, id := range got.ids {
			at := decimal(p.t, kit.EventID.FindStringSubmatch(id)[1])
			if s.earliest == "" || i == 0 && at < s.from {
				s.earliest, s.from = id, at
			}
		}
		if conn.cursor != "" {
			require.Equal(p.t, conn.cursor[:22], got.stream)
			cursor := decimal(p.t, kit.EventID.FindStringSubmatch(conn.cursor)[1])
			switch {
			case len(got.messages) == 0:
			case got.messages[0].seq <= cursor: // its cursor was past the end
				require.False(p.t, p.answers(got.stream), "only the standalone stream goes on from what was written")
			default:
				require.Equal(p.t, cursor+1, got.messages[0].seq, "nothing is left out after a cursor")
			}
		}
		for _, m := range got.messages {
			if before, ok := s.messages[m.seq]; ok {
				require.Equal(p.t, before, m.data, "each sequence is one message")
			}
			s.messages[m.seq] = m.data
			require.False(p.t, s.standalone && m.responseTo != "", "no response travels on the standalone stream")
		}
	}
	return all
}

// answers reports whether a stream belongs to a call.
func (p *fuzzPlay) answers(stream string) bool {
	for _, c := range p.calls {
		if ids := eventIDsIn(c.post.text()); len(ids) > 0 && ids[0][:22] == stream {
			return true
		}
	}
	return false
}

// judge checks where each mark is.
func (p *fuzzPlay) judge(known map[*actor]map[string]*playedStream) {
	at := map[string]string{} // by mark
	order := map[string]uint64{}
	place := func(mark, where string) {
		require.Contains(p.t, []string{"", where}, at[mark], "%s is in two places", mark)
		at[mark] = where
	}
	for a, streams := range p.streams() {
		for name, s := range streams {
			for seq, data := range s.messages {
				for _, mark := range markOf.FindAllString(data, -1) {
					place(mark, fmt.Sprintf("%s %d", name, seq))
					order[mark] = seq
				}
			}
			if k := known[a][name]; k != nil {
				s.last = k.last
			}
		}
	}
	for i, conn := range p.conns {
		if conn.Status == http.StatusOK && !conn.streams() {
			for _, mark := range markOf.FindAllString(conn.text(), -1) {
				place(mark, fmt.Sprintf("answer %d", i))
			}
		}
	}
	for _, c := range p.calls {
		p.judgeCall(c, at, order)
	}
	for _, a := range p.actors {
		for i, mark := range a.told {
			if !a.gone {
				require.NotEmpty(p.t, at[mark], "what was sent on the standalone stream came")
			}
			if i > 0 && at[mark] != "" && at[a.told[i-1]] != "" {
				require.Less(p.t, order[a.told[i-1]], order[mark])
			}
		}
	}
}

// judgeCall checks one call.
func (p *fuzzPlay) judgeCall(c *playedCall, at map[string]string, order map[string]uint64) {
	ids := eventIDsIn(c.post.text())
	back := len(ids) > 0 && !c.actor.gone && !c.cancelled // the client could poll
	whole := c.post.Status == http.StatusOK && !c.post.streams()
	if c.result != "" && (back || whole && !c.post.cut) {
		require.NotEmpty(p.t, at[c.result], "the response came")
	}
	before := uint64(0)
	for _, mark := range c.told {
		where := at[mark]
		if back && c.result != "" {
			require.NotEmpty(p.t, where, "all that a call told came")
		}
		if back && where != "" && strings.HasPrefix(where, ids[0][:22]+" ") {
			require.Less(p.t, before, order[mark], "in order")
			before = order[mark]
		}
	}
	if back && c.result != "" {
		require.Less(p.t, before, order[c.result], "the response comes last")
	}
}
