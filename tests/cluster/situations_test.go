package cluster_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// verb is a request that a client sends in its session.
type verb struct{ name, method, body string }

// verbs are all kinds of them, but for initialize. That with a cursor resumes a call that has reported progress once, and still runs.
var verbs = []verb{
	{"request", http.MethodPost, kit.Ping},
	{"notification", http.MethodPost, note},
	{"answer", http.MethodPost, `{"jsonrpc":"2.0","id":"q","result":{}}`},
	{"GET", http.MethodGet, ""},
	{"GET with a cursor", http.MethodGet, ""},
	{"DELETE", http.MethodDelete, ""},
}

// answers are the summaries of what the client gets, in the order of verbs.
type answers [6]string

const (
	laterNull = `503 error(-32000,null) ended`
	heldNew   = "200 sse strange(none.0.x) retry ended" // a held stream of a client without a cursor
	heldAt1   = "200 sse primer@1 retry ended"          // of one with a cursor
)

var (
	isServed      = answers{served, "202 ended", "202 ended", "200 sse primer@0 open", "200 sse primer@1 open", "204 ended"}
	isAdopted     = answers{served, "202 ended", "202 ended", "200 sse primer@0 open", "200 sse primer@1 1~:error(-32000,2) owner_lost ended", "204 ended"}
	isLater       = answers{later, laterNull, `503 error(-32000,"q") ended`, heldNew, heldAt1, laterNull}
	isGone        = answers{gone, gone, gone, gone, gone, gone}
	isOwnerLost   = isLater.because("owner_lost")
	isUnreachable = isLater.because("unreachable")
)

// because is the same with a reason. A request gets it as its result.
func (a answers) because(reason string) answers {
	for verb := range a {
		a[verb] = strings.Replace(a[verb], ") ended", ") "+reason+" ended", 1)
	}
	return a.but(0, strings.Replace(a[0], "503", "200", 1))
}

// but is the same with another answer to a verb.
func (a answers) but(verb int, answer string) answers {
	a[verb] = answer
	return a
}

// situation is what a process finds when it gets a request.
type situation struct {
	name  string
	bring func(t *testing.T, w *world, of func(int) *watched) // makes it so
	at    int                                                 // the process that gets the request: 0 is the owner
	want  answers
	// within is how long the client waits at most for the answer, or for the beginning of a stream. 0: it does not wait.
	within time.Duration
	alive  bool // nothing may be adopted, and the call of the owner goes on
}

// In each situation a client gets the answer that it should get, whatever it has sent, and in time.
func TestSituations(t *testing.T) {
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			for v := range verbs {
				t.Run(verbs[v].name, func(t *testing.T) {
					kit.Bubble(t, func(t *testing.T) { s.run(t, v) })
				})
			}
		})
	}
}

func (s *situation) run(t *testing.T, v int) {
	t.Helper()
	o := options{config: func(c *rejoin.Config) { c.MaxSessions = 4 }}
	of := watch(&o)
	w := newWorld(t, o)
	w.add(o)
	call, tool := w.run(t, 1)
	elapse(3 * lease) // the engine has lost nothing for so long
	s.bring(t, w, of)
	header := []string{"Mcp-Protocol-Version", kit.Polling}
	if verbs[v].name == "GET with a cursor" {
		header = append(header, "Last-Event-ID", call.IDs()[1])
	}
	began := time.Now()
	res := w.ask(t, s.at, verbs[v].method, w.session(), verbs[v].body, header...)
	got := res.Summary()
	for ; got == "open" && time.Since(began) < 3*lease; got = res.Summary() {
		elapse(10 * time.Millisecond)
	}
	waited := time.Since(began)
	require.Equal(t, s.want[v], withoutNonce.ReplaceAllString(got, "(none.0.x)"))
	require.LessOrEqual(t, waited, s.within, "it waits too long")
	if strings.HasPrefix(got, "503") {
		require.Equal(t, "1", res.Head.Get("Retry-After"))
	}
	if s.alive && v != len(verbs)-1 {
		require.Zero(t, w.processes[1].Stats().Adopted+w.processes[2].Stats().Adopted)
		require.NoError(t, tool.Cause())
		require.Empty(t, of(0).causes())
	}
}

var withoutNonce = regexp.MustCompile(`\(none\.0\.[0-9a-z]+\)`)

// knows makes the process that is asked know where the session is.
func knows(t *testing.T, w *world, n int) {
	t.Helper()
	require.Equal(t, served, w.ping(t, n, w.session()))
}

// dies ends the owner without a word. Nobody knows yet.
func dies(w *world) {
	w.processes[0].link.SetLink(clustertest.Refused)
	unreachable(w)
}

// unreachable lets no other process reach the owner. The engine does.
func unreachable(w *world) {
	w.net.Refuse("0", true)
	w.net.Reset("0")
	synctest.Wait() // they see it
}
