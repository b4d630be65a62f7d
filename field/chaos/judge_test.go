//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	childMain() // a child must not run the tests
	m.Run()
}

// noon is when made-up runs begin.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func nano(seconds float64) int64 { return at(seconds).UnixNano() }

// good is the evidence of one call, of a client that reads both streams, with two events on the one and one on the other, in process p1.
func good() *evidence {
	key := keyOf("own", "session")
	return &evidence{
		Timing: defaults().Timing,
		Calls: []*record{{
			Name: "raw-1", Kind: "raw", App: "own", Session: "session", Work: work{Call: "raw-1", Events: 2, For: 1000, Aside: 1},
			Begun: at(1), Ended: at(2), Outcome: answered, Got: []int{0, 1}, Asides: []int{0}, Due: 1, Listens: true,
		}},
		Tools: []entry{
			{Process: "p1", At: nano(0.5), Began: nano(0.4), Do: owns, Session: key, Incarnation: "one", Epoch: 1},
			{Process: "p1", At: nano(1), Do: toolBegan, Call: "raw-1", Session: "session"},
			{Process: "p1", At: nano(1.1), Do: toolSends, Call: "raw-1", N: 0},
			{Process: "p1", At: nano(1.2), Do: toolSent, Call: "raw-1", N: 0},
			{Process: "p1", At: nano(1.3), Began: nano(1.2), Do: wrote, Session: key, Stream: "s", N: 1, Sum: 7, Incarnation: "one", Epoch: 1},
			{Process: "p1", At: nano(1.4), Do: toolAside, Call: "raw-1", N: 0},
			{Process: "p1", At: nano(1.5), Do: toolSends, Call: "raw-1", N: 1},
			{Process: "p1", At: nano(1.9), Do: toolReturns, Call: "raw-1", N: 2},
		},
		Fronts: map[string][]string{"raw-1": {"p2"}},
	}
}

// adopted adds an adoption by p2, under an epoch.
func (e *evidence) adopted(seconds float64, epoch uint64) {
	e.Tools = append(e.Tools, entry{
		Process: "p2", At: nano(seconds), Began: nano(seconds - 0.1), Do: adopts, Session: keyOf("own", "session"), Incarnation: "two", Epoch: epoch,
	})
}

// wrote adds a write.
func (e *evidence) wrote(process, incarnation string, epoch uint64, seconds float64, stream string, n int, sum uint64) {
	e.Tools = append(e.Tools, entry{
		Process: process, At: nano(seconds), Began: nano(seconds - 0.05), Do: wrote, Session: keyOf("own", "session"), Stream: stream, N: n, Sum: sum,
		Incarnation: incarnation, Epoch: epoch,
	})
}

// struck adds a fault that was made to p1.
func (e *evidence) struck(fault string, from, to float64) *strike {
	e.Strikes = append(e.Strikes, strike{Fault: fault, Targets: []string{"p1"}, From: at(from), To: at(to)})
	return &e.Strikes[len(e.Strikes)-1]
}

// Every count can be other than 0, and only for its cause.
func TestWhatTheJudgeFinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		alter func(e *evidence, r *record)
		finds string // "": nothing
		apart string
	}{
		{"all is well", func(*evidence, *record) {}, "", ""},

		{"an event is missing", func(_ *evidence, r *record) { r.Got = []int{1} }, lost, ""},
		{"the last event is missing", func(_ *evidence, r *record) { r.Got = []int{0} }, lost, ""},
		{"an event is missing before an error", func(e *evidence, r *record) { r.fail("owner_lost", 1); e.struck("kill", 1.5, 2) }, lost, ""},
		{"an event on the standalone stream is missing", func(_ *evidence, r *record) { r.Asides = nil }, lost, ""},
		{"… of an owner that was killed", func(e *evidence, r *record) { r.Asides = nil; e.struck("kill", 2, 2) }, "", apartAside},
		{"the server does not know the call", func(_ *evidence, r *record) { r.Outcome = vanished }, lost, ""},
		{"a client gave up, and a poll finds nothing", func(_ *evidence, r *record) { r.Outcome, r.Rescue = gaveUp, vanished }, lost, ""},
		{"a client gave up, and a poll finds the result", func(_ *evidence, r *record) { r.Outcome, r.Rescue = gaveUp, answered }, "", apartGaveUp},
		{"a call was refused, and ran", func(e *evidence, r *record) { r.Outcome = refusedBy; e.struck("pause", 1, 2) }, lost, apartRefused},
		{"400 for an id that was given", func(e *evidence, _ *record) { e.answered(http.StatusBadRequest) }, lost, ""},
		{"owner and engine were lost together", func(e *evidence, r *record) {
			r.Outcome = vanished
			e.struck("adopted", 1, 2).Both = true
		}, "", apartBoth},

		{"an event comes twice", func(_ *evidence, r *record) { r.Got = []int{0, 1, 1} }, doubled, ""},
		{"an event on the standalone stream comes twice", func(_ *evidence, r *record) { r.Asides = []int{0, 0} }, doubled, ""},
		{"a tool runs twice", func(e *evidence, _ *record) {
			e.Tools = append(e.Tools, entry{Process: "p2", At: nano(1.6), Do: toolBegan, Call: "raw-1"})
		}, doubled, ""},

		{"events come in another order", func(_ *evidence, r *record) { r.Got = []int{1, 0} }, disorder, ""},
		{"… in goroutines of a library", func(_ *evidence, r *record) { r.Got, r.Kind = []int{1, 0}, "go-sdk" }, "", ""},
		{"a number is passed over on the wire", func(_ *evidence, r *record) { r.Faults = []fault{{lost, ""}} }, lost, ""},

		{"an event was never sent", func(_ *evidence, r *record) { r.Got = []int{0, 1, 2} }, foreign, ""},
		{"an event was refused, and comes", func(e *evidence, _ *record) {
			e.Tools = append(e.Tools, entry{Process: "p1", At: nano(1.6), Do: toolFull, Call: "raw-1", N: 1})
		}, foreign, ""},
		{"a result of a tool that has not returned", func(e *evidence, _ *record) { e.Tools = e.Tools[:len(e.Tools)-1] }, foreign, ""},
		{"an event of another session", func(e *evidence, _ *record) { e.Stray = []fault{{foreign, ""}} }, foreign, ""},

		{"a number means two events on the wire", func(_ *evidence, r *record) { r.Faults = []fault{{twoMeanings, ""}} }, twoMeanings, ""},
		{"a number means two events in the engine", func(e *evidence, _ *record) { e.wrote("p1", "one", 1, 1.4, "s", 1, 8) }, twoMeanings, ""},
		{"the same event again", func(e *evidence, _ *record) { e.wrote("p1", "one", 1, 1.4, "s", 1, 7) }, "", ""},

		{"an owner that was replaced writes", func(e *evidence, _ *record) { e.adopted(3, 2); e.wrote("p1", "one", 1, 4, "s", 2, 8) }, twoOwners, ""},
		{"… its record", func(e *evidence, _ *record) {
			e.adopted(3, 2)
			again := e.Tools[0]
			again.Began, again.At = nano(4), nano(4.1)
			e.Tools = append(e.Tools, again)
		}, twoOwners, ""},
		{"two adopters under one epoch", func(e *evidence, _ *record) {
			e.adopted(3, 2)
			e.Strikes = append(e.Strikes, strike{Fault: "promote", Loses: true, From: at(4), To: at(4.1)})
			third := entry{Process: "p3", At: nano(5), Began: nano(4.9), Do: adopts, Session: keyOf("own", "session"), Incarnation: "three", Epoch: 2}
			e.Tools = append(e.Tools, third)
			e.wrote("p2", "two", 2, 6, "s", 2, 8)
		}, twoOwners, ""},
		{"an owner writes while another one adopts", func(e *evidence, _ *record) { e.adopted(3, 2); e.wrote("p1", "one", 1, 3.01, "s", 2, 8) }, "", ""},
		{"the adopter writes", func(e *evidence, _ *record) { e.adopted(3, 2); e.wrote("p2", "two", 2, 4, "s", 2, 8) }, "", ""},
		{"the engine goes back behind an adoption", func(e *evidence, _ *record) {
			e.adopted(3, 2)
			e.Strikes = append(e.Strikes, strike{Fault: "promote", Loses: true, From: at(3.5), To: at(3.6)})
			e.wrote("p1", "one", 1, 4, "s", 2, 8)
		}, "", ""},

		{"an error of an owner that lives", func(_ *evidence, r *record) { r.fail("owner_lost", 2) }, killed, ""},
		{"… of one that was killed", func(e *evidence, r *record) { r.fail("owner_lost", 2); e.struck("kill", 1.5, 2) }, "", apartLost},
		{"… of one that was killed later", func(e *evidence, r *record) { r.fail("owner_lost", 2); e.struck("kill", 2.5, 3) }, killed, ""},
		{"… when the engine was away", func(e *evidence, r *record) { r.fail("owner_lost", 2); e.struck("away", 1, 2).Targets = nil }, killed, ""},
		{"a connection breaks", func(_ *evidence, r *record) { r.Outcome = noID }, killed, ""},
		{"… through a process that was killed", func(e *evidence, r *record) {
			r.Outcome = noID
			e.struck("kill", 1.5, 2).Targets[0] = "p2"
		}, "", apartNoID},
		{"a client gave up, and a poll finds an error", func(_ *evidence, r *record) { r.Outcome, r.Rescue = gaveUp, "owner_lost" }, killed, apartGaveUp},

		{"a call has no end", func(_ *evidence, r *record) { r.Outcome, r.Ended = hung, at(70) }, late, ""},
		{"a call ends too late", func(_ *evidence, r *record) { r.Ended = at(12) }, late, ""},
		{"… because of a fault", func(e *evidence, r *record) { r.Ended = at(12); e.struck("away", 1, 4).Targets = nil }, "", ""},
		{"… and longer than that allows", func(e *evidence, r *record) { r.Ended = at(14); e.struck("away", 1, 4).Targets = nil }, late, ""},
		{"a library takes its time", func(_ *evidence, r *record) { r.Ended, r.Kind = at(12), "mcp-go" }, "", ""},

		{"404", func(e *evidence, _ *record) { e.answered(http.StatusNotFound) }, notFound, ""},
		{"404 after DELETE", func(e *evidence, _ *record) { e.answered(http.StatusNotFound).Ended = true }, "", ""},
		{"404 for a session that was idle for too long", func(e *evidence, _ *record) { e.answered(http.StatusNotFound).Idle = time.Hour }, "", ""},

		{"503 without a cause", func(e *evidence, _ *record) { e.answered(http.StatusServiceUnavailable) }, refusals, ""},
		{"503 during a fault", func(e *evidence, _ *record) { e.answered(http.StatusServiceUnavailable); e.struck("memory", 1, 2) }, "", ""},
		{"a call is refused without a cause", func(e *evidence, _ *record) {
			e.Calls = []*record{{Name: "raw-2", Kind: "raw", App: "own", Session: "session", Begun: at(1), Ended: at(2), Outcome: refusedBy}}
		}, refusals, ""},

		{"sessions are left", func(e *evidence, _ *record) { e.Left = []string{"a session"} }, leftover, ""},

		{"503 in a planned end", func(e *evidence, _ *record) { e.Planned = true; e.answered(http.StatusServiceUnavailable) }, acts, ""},
		{"an error in a planned end", func(e *evidence, r *record) { e.Planned = true; e.struck("deploy", 1, 2); r.fail("shutdown", 2) }, acts, ""},
		{"503 in a planned end, and the machine stood still", func(e *evidence, _ *record) {
			e.Planned = true
			e.answered(http.StatusServiceUnavailable)
			e.struck(slowEngine, 1.4, 1.5).Targets = nil
		}, "", apartSlow},
		{"an error of an owner that lives, and the engine was slow", func(e *evidence, r *record) {
			r.fail("owner_lost", 2)
			e.struck(slowEngine, 1, 2).Targets = nil
		}, killed, ""},
		{"a client gave up in a planned end", func(e *evidence, r *record) {
			e.Planned = true
			r.Outcome, r.Rescue = gaveUp, answered
		}, acts, apartGaveUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := good()
			c.alter(e, e.Calls[0])
			v := judge(e)
			want := map[string]int{}
			for _, z := range zeros {
				want[z] = 0
			}
			if c.finds != "" {
				want[c.finds] = 1
			}
			require.Equal(t, want, v.Zeros, "%q", v.Found)
			if c.apart != "" {
				require.Equal(t, 1, v.Apart[c.apart])
			}
		})
	}
}

// fail makes the outcome an error, after the first n events have come: all but the one before the last if n is 1.
func (r *record) fail(why string, n int) {
	r.Outcome, r.Why = failed, why
	if n == 1 {
		r.Got = []int{1}
	}
}

// answered adds an answer that a client may have to act on.
func (e *evidence) answered(status int) *trouble {
	e.Troubles = append(e.Troubles, trouble{Began: at(1.5), At: at(1.6), Status: status, Method: http.MethodGet, Session: "session"})
	return &e.Troubles[0]
}

// The account has words for each fault.
func TestEachFaultHasItsWords(t *testing.T) {
	t.Parallel()
	for _, name := range attackNames() {
		require.Contains(t, called, name)
	}
}

// The time to an error is counted from the fault that has caused it.
func TestTimesToErrors(t *testing.T) {
	t.Parallel()
	e := good()
	e.Strikes = nil
	e.struck("kill", 1.5, 2)
	e.Calls = nil
	for i := range 100 {
		r := good().Calls[0]
		r.Outcome, r.Why, r.Got, r.Ended = failed, "owner_lost", nil, at(1.5+float64(i+1)/100)
		e.Calls = append(e.Calls, r)
	}
	v := judge(e)
	require.Len(t, v.Faults, 1)
	f := v.Faults[0]
	require.Equal(t, 1, f.Times)
	require.Equal(t, 100, f.Affected)
	require.Equal(t, map[string]int{"owner_lost": 100}, f.Errors)
	require.InDelta(t, 0.5, quantile(f.Delays, 0.5).Seconds(), 0.02)
	require.InDelta(t, 1, quantile(f.Delays, 0.99).Seconds(), 0.001)
	require.InDelta(t, 1, quantile(f.Delays, 1).Seconds(), 0.001)
}

func TestTheAccountReplacesASectionOfADocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	for _, j := range []job{defaults(), {Faults: []string{"deploy"}}} {
		begin, end := j.section()
		require.NoError(t, os.WriteFile(path, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o600))
		require.NoError(t, j.writeInto(path, "new\n"))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "before\n"+begin+"\nnew\n"+end+"\nafter\n", string(text))
	}
	require.NoError(t, os.WriteFile(path, []byte("nothing"), 0o600))
	j := defaults()
	require.Error(t, j.writeInto(path, "new"))
}

// The page has a place for both accounts.
func TestThePageHasThem(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/many-machines.md")
	require.NoError(t, err)
	for _, j := range []job{defaults(), {Faults: []string{"deploy"}}} {
		begin, end := j.section()
		require.Contains(t, string(page), begin)
		require.Contains(t, string(page), end)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-for 0", "-clients 0", "-faults what", "-persistence what", "-pause 0", "x", "-what"} {
		require.Error(t, run(t.Context(), strings.Fields(args), io.Discard, io.Discard), "%s", args)
	}
}
