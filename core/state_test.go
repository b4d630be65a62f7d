package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// variants are the kinds of session and request that the table of states tells apart: how the session begins, and its POST.
var variants = map[string][2]string{
	"auto":       {"open 2025-11-25", "post A c1 id=1"},
	"sse":        {"open 2025-11-25", "post A c1 id=1 mode=sse"},
	"json":       {"open 2025-11-25", "post A c1 id=1 mode=json"},
	"noflush":    {"open 2025-11-25", "post A c1 id=1 noflush"},
	"legacy":     {"open 2025-06-18", "post A c1 id=1"},
	"batch":      {"open 2025-03-26", "post A c1 batch=1,2"},
	"batch-poll": {"open 2025-03-26 canpoll", "post A c1 batch=1,2"},
	"batch-json": {"open 2025-03-26", "post A c1 batch=1,2 mode=json"},
}

// states are the columns, by how a stream gets there. In a batch, request 2 is answered already, and 1 is the last one.
var states = map[string]func(post string, batch bool) []string{
	"undecided": func(post string, batch bool) []string {
		if batch {
			return []string{post, "reply A 2"}
		}
		return []string{post}
	},
	"attached": func(post string, batch bool) []string {
		if batch {
			return []string{post, "emit A", "reply A 2", "written c1 A.2"}
		}
		return []string{post, "emit A", "written c1 A.1"}
	},
	"away": func(post string, batch bool) []string {
		if batch {
			return []string{post, "emit A", "reply A 2", "written c1 A.2", "gone c1 A"}
		}
		return []string{post, "emit A", "written c1 A.1", "gone c1 A"}
	},
	"unreachable": func(post string, batch bool) []string {
		if batch {
			return []string{post, "reply A 2", "gone c1 A"}
		}
		return []string{post, "gone c1 A"}
	},
	"sealed": func(post string, batch bool) []string {
		if batch {
			return []string{post, "emit A", "reply A 2", "written c1 A.2", "gone c1 A", "reply A 1"}
		}
		return []string{post, "emit A", "written c1 A.1", "gone c1 A", "reply A 1"}
	},
}

// cell says what an input leads to. A, and # in place of the last sequence (1, in a batch 2) and + in place of the next one.
type cell struct{ state, variants, want string }

const (
	all     = "auto sse json noflush legacy batch batch-poll batch-json"
	streams = "auto sse legacy batch batch-poll" // that can become a stream
	whole   = "json noflush batch-json"          // that cannot
	primed  = "head c1; primer c1 A.0.n1 retry=1s"
	plain   = "head c1; comment c1"
	failed  = "cancel-app A id=1 %; fail A id=1 %"
)

func responses() []cell {
	return []cell{
		{"undecided", "auto legacy batch batch-poll " + whole, "json c1; drop A"},
		{"undecided", "sse", primed + "; record A.1 seal; end c1 A.1 ended"},
		{"attached", streams, "record A.+ seal; end c1 A.+ ended"},
		{"away", streams, "record A.+ seal"},
		{"unreachable", all, "discard unreachable; drop A"},
		{"sealed", streams, "discard ended"},
	}
}

func messages(wholeUndecided, sealed string) []cell {
	return []cell{
		{"undecided", "auto sse", primed + "; record A.1"},
		{"undecided", "legacy", plain + "; record A.1"},
		{"undecided", "batch", plain + "; release A; record A.1"},
		{"undecided", "batch-poll", primed + "; release A; record A.1"},
		{"undecided", whole, wholeUndecided},
		{"attached", streams, "record A.+"},
		{"away", streams, "record A.+"},
		{"unreachable", all, "discard unreachable"},
		{"sealed", streams, sealed},
	}
}

func everywhere(want, sealed string) []cell {
	return []cell{
		{"undecided", all, want}, {"attached", streams, want}, {"away", streams, want}, {"unreachable", all, want}, {"sealed", streams, sealed},
	}
}

var stateTable = []struct {
	input []string // the last one is what the table is about
	cells []cell
}{
	{[]string{"reply A 1"}, responses()},
	{[]string{"emit A"}, messages("record S.1", "record S.1")},
	{[]string{"emit A ask"}, messages("discard no-stream", "record S.1")},
	{[]string{"emit A progress"}, messages("discard worthless", "discard worthless")},
	{[]string{"close A"}, []cell{
		{"undecided", "auto sse noflush", primed + "; end c1 now retry=1s"},
		{"undecided", "batch-poll", primed + "; release A; end c1 now retry=1s"},
		{"undecided", "legacy batch json batch-json", "refuse not-resumable"},
		{"attached", "auto sse batch-poll", "end c1 A.# retry=1s"},
		{"attached", "legacy batch", "refuse not-resumable"},
		{"away", streams, "nothing"},
		{"unreachable", all, "nothing"},
		{"sealed", streams, "refuse ended"},
	}},
	{[]string{"adjust A max-runtime=-1s", "1.01s tick"}, []cell{ // StreamAfter
		{"undecided", "auto sse", primed},
		{"undecided", "legacy", plain},
		{"undecided", "batch", plain + "; release A"},
		{"undecided", "batch-poll", primed + "; release A"},
		{"undecided", whole, "nothing"},
		{"attached", streams, "nothing"},
		{"away", streams, "nothing"},
		{"unreachable", all, "nothing"},
		{"sealed", streams, "nothing"},
	}},
	{[]string{"gone c1 A"}, []cell{
		{"undecided", all, "strand A"},
		{"attached", streams, "nothing"},
		{"away", streams, "impossible"},
		{"unreachable", all, "impossible"},
		{"sealed", streams, "impossible"},
	}},
	{[]string{"get c2 A.0"}, []cell{ // a resume
		{"undecided", all, "refuse c2 unknown"},
		{"attached", "auto sse batch-poll", "end c1 now retry=1s taken-over; attach c2 A.0; head c2; primer c2 A.0.n2 retry=1s"},
		{"attached", "legacy batch", "end c1 now taken-over; attach c2 A.0; head c2; comment c2"},
		{"away", "auto sse batch-poll", "attach c2 A.0; head c2; primer c2 A.0.n2 retry=1s"},
		{"away", "legacy batch", "attach c2 A.0; head c2; comment c2"},
		{"unreachable", all, "refuse c2 unknown"},
		{"sealed", "auto sse batch-poll", "attach c2 A.0; head c2; primer c2 A.0.n2 retry=1s; end c2 A.+ ended"},
		{"sealed", "legacy batch", "attach c2 A.0; head c2; comment c2; end c2 A.+ ended"},
	}},
	{[]string{"cancel 1"}, []cell{
		{"undecided", "auto sse legacy", "cancel-app A id=1 cancelled; head c1; end c1 now cancelled"},
		{"undecided", "json noflush", "cancel-app A id=1 cancelled; refuse c1 cancelled; drop A"},
		{"undecided", "batch batch-poll batch-json", "cancel-app A id=1 cancelled; json c1; drop A"},
		{"attached", streams, "cancel-app A id=1 cancelled; end c1 A.# cancelled"},
		{"away", "auto sse legacy", "cancel-app A id=1 cancelled; drop A"},
		{"away", "batch batch-poll", "cancel-app A id=1 cancelled"}, // the response to 2 is still to be had
		{"unreachable", all, "cancel-app A id=1 cancelled; drop A"},
		{"sealed", streams, "nothing"},
	}},
	{[]string{"1.005s tick"}, everywhere(strings.ReplaceAll(failed, "%", "overran"), "nothing")}, // MaxRuntime
	{[]string{"1.005s tick", "reply A 1"}, responses()},                                          // the error is a response like others
	{[]string{"adjust A max-runtime=-1s abandon-after=1m", "1.5s tick", "1m2s tick"}, []cell{ // AbandonAfter
		{"undecided", all, "nothing"},
		{"attached", streams, "nothing"},
		{"away", streams, strings.ReplaceAll(failed, "%", "abandoned")},
		{"unreachable", all, strings.ReplaceAll(failed, "%", "abandoned")},
		{"sealed", streams, "nothing"},
	}},
	{[]string{"stop"}, everywhere(strings.ReplaceAll(failed, "%", "shutdown"), "end-session shutdown")},
	{[]string{"stop", "reply A 1"}, []cell{ // where nobody reads, this ends the session
		{"undecided", "auto legacy batch batch-poll " + whole, "json c1; drop A"},
		{"undecided", "sse", primed + "; record A.1 seal; end c1 A.1 ended"},
		{"attached", streams, "record A.+ seal; end c1 A.+ ended"},
		{"away", streams, "record A.+ seal; end-session shutdown"},
		{"unreachable", all, "discard unreachable; drop A; end-session shutdown"},
		{"sealed", streams, "discard ended"},
	}},
	{[]string{"delete"}, []cell{
		{"undecided", all, "cancel-app A id=1 deleted; refuse c1 deleted; end-session deleted"},
		{"attached", streams, "cancel-app A id=1 deleted; end c1 now deleted; end-session deleted"},
		{"away", streams, "cancel-app A id=1 deleted; end-session deleted"},
		{"unreachable", all, "cancel-app A id=1 deleted; end-session deleted"},
		{"sealed", streams, "end-session deleted"},
	}},
}

// TestStates walks the table of states: each input, in each state, for each kind of request.
func TestStates(t *testing.T) {
	for _, row := range stateTable {
		t.Run(strings.Join(row.input, ", "), func(t *testing.T) {
			seen := map[string]bool{}
			for _, c := range row.cells {
				for name := range strings.FieldsSeq(c.variants) {
					key := c.state + " " + name
					require.False(t, seen[key], "%s stands twice in the table", key)
					seen[key] = true
					t.Run(key, func(t *testing.T) {
						if c.want == "impossible" {
							return
						}
						walk(t, row.input, c, name)
					})
				}
			}
			for state := range states {
				for name := range variants {
					if state == "undecided" || state == "unreachable" || slices.Contains(strings.Fields(streams), name) {
						require.True(t, seen[state+" "+name], "the table says nothing of %s %s", state, name)
					}
				}
			}
		})
	}
}

func walk(t *testing.T, input []string, c cell, variant string) {
	t.Helper()
	v := variants[variant]
	batch := strings.HasPrefix(variant, "batch")
	s := newScript(t)
	s.all("0s " + v[0] + " stream-after=10ms max-runtime=5ms")
	s.at = time.Second
	s.all(states[c.state](v[1], batch)...)
	last, next := "1", "2"
	if batch {
		last, next = "2", "3"
	}
	require.Equal(t, strings.NewReplacer("A.#", "A."+last, "A.+", "A."+next).Replace(c.want), s.all(input...))
}

// TestInspect: the names of the states, as others see them.
func TestInspect(t *testing.T) {
	names := map[string]string{"undecided": "pending", "attached": "live", "away": "parked", "unreachable": "parked", "sealed": "sealed"}
	for state, setup := range states {
		s := newScript(t)
		s.all("3s open 2025-11-25 idle=-1s", "5s touch")
		s.all(setup("post A c1 id=1", false)...)
		require.Equal(t, names[state], s.all("state A"))
		at := s.index[streamID("A")]
		require.Equal(t, s.base.Add(5*time.Second), s.m.Inspect(at).Since)
		require.Equal(t, s.base.Add(3*time.Second), s.m.Inspect(0).Since)
		require.Equal(t, s.m.streams[at].seq, s.m.Inspect(at).Seq)
		s.all("reply A 1", "gone c1 A", "1h tick")
		require.Equal(t, Info{}, s.m.Inspect(at), "dropped, but the session is still there")
		require.Equal(t, Info{State: Parked, Since: s.base.Add(3 * time.Second)}, s.m.Inspect(0))
		s.all("delete")
		require.Equal(t, Info{}, s.m.Inspect(at))
	}
}

// TestUnwritten: a connection that is lost before any id was written to it leaves a stream that nobody can come back for, and one
// that is resumed before that was reported does not.
func TestUnwritten(t *testing.T) {
	for name := range strings.FieldsSeq(streams) {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.all(variants[name][0], variants[name][1], "emit A")
			require.Equal(t, "strand A", s.all("gone c1 A"))

			s = newScript(t)
			s.all(variants[name][0], variants[name][1], "emit A", "get c2 A.1", "gone c1 A")
			require.Equal(t, "nothing", s.all("gone c2 A"))
			require.Equal(t, "record A.2", s.all("emit A"))
		})
	}
}
