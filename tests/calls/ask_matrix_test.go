package calls_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// place is a state in which a question is asked, with its client.
type place struct {
	c      *rejointest.Client
	call   *rejointest.Call
	listen *rejointest.Call // the standalone stream; nil: the client does not read it
	tool   *kit.ManualTool
	away   bool // the client of the call is disconnected
	giveUp func(error)
	got    chan any // the outcome of the question
}

// places are the states of a stream in which a question can be asked. on is the stream that the question travels on, before what the client
// has already seen of it.
var places = []struct {
	name, on, before string
	version          string
	policy           rejoin.Policy
	noFlush          bool
	reach            func(*place)
}{
	{name: "undecided", on: "call", policy: rejoin.Policy{StreamAfter: -1}},
	{name: "attached", on: "call", before: "progress ", reach: speaks},
	{name: "attached, cannot poll", on: "call", before: "progress ", version: kit.Legacy, reach: speaks},
	{name: "parked", on: "call", before: "progress ", reach: func(p *place) { speaks(p); p.call.Cut(); p.away = true }},
	{name: "parked, cannot poll", on: "call", before: "progress ", version: kit.Legacy, reach: func(p *place) { speaks(p); p.call.Cut(); p.away = true }},
	{name: "closed", on: "call", before: "progress ", reach: func(p *place) {
		speaks(p)
		_ = p.tool.CloseStream(0)
		p.call.WaitClosed()
		p.away = true
	}},
	{name: "mode JSON", on: "session", policy: rejoin.Policy{Mode: rejoin.ModeJSON}, reach: func(p *place) { p.listen = p.c.Listen() }},
	{name: "cannot flush", on: "session", noFlush: true, reach: func(p *place) { p.listen = p.c.Listen() }},
	{name: "ended, listening", on: "session of an ended call", reach: func(p *place) { p.listen = p.c.Listen(); p.tool.Returns("done") }},
	{name: "ended, not listening", on: "session of an ended call", reach: func(p *place) { p.tool.Returns("done") }},
	{name: "no call, listening", on: "session without a call", reach: func(p *place) { p.listen = p.c.Listen() }},
	{name: "no call, not listening", on: "session without a call"},
}

func speaks(p *place) {
	_ = p.tool.Progress(1, 0, "")
	synctest.Wait()
}

// outcomes are the possible outcomes of a question.
var outcomes = []struct {
	name      string
	do        func(*testing.T, *place)
	want      any    // what the tool gets
	withdrawn string // the stream on which the question is withdrawn; "there": the one on which it was asked
	response  string // the summary of the call's response
	ofCall    bool   // it needs a call
	ofAway    bool   // it is possible only while the client of the call is disconnected
	gone      bool   // the session has ended too
	told      bool   // clients that wait for a response are told so
}{
	{name: "answered", do: answers(`"result":{"a":1}`), want: `{"a":1}`},
	{name: "answered without a value", do: answers(`"result":null`), want: `null`},
	{name: "refused", do: answers(`"error":{"code":7,"message":"no"}`), want: &rejoin.Error{Code: 7, Message: "no"}},
	{name: "answered twice", do: func(t *testing.T, p *place) {
		answers(`"result":1`)(t, p)
		answers(`"error":{"code":7,"message":"no"}`)(t, p)
	}, want: `1`},
	{name: "answered while draining", do: func(t *testing.T, p *place) {
		kit.Drain(t, p.c.Server(), 0)
		answers(`"result":1`)(t, p)
	}, want: `1`},
	{name: "given up", do: func(_ *testing.T, p *place) { p.giveUp(errBusy) }, want: errBusy, withdrawn: "there"},
	{name: "its call cancelled", do: func(_ *testing.T, p *place) { p.call.Cancel("") }, want: rejoin.ErrCancelled, withdrawn: "session", ofCall: true},
	{
		name: "its call answered", do: func(_ *testing.T, p *place) { p.tool.Returns("done") },
		want: rejoin.ErrEnded, withdrawn: "there", response: "result", ofCall: true,
	},
	{
		name: "its call overrun", do: func(t *testing.T, p *place) {
			require.NoError(t, p.tool.SetPolicy(rejoin.Policy{MaxRuntime: time.Hour, AbandonAfter: -1}))
			kit.Elapse(time.Hour)
		}, want: rejoin.ErrMaxRuntime, withdrawn: "there", response: "error(-32000,2) max_runtime", ofCall: true,
	},
	{
		name: "its call abandoned", do: func(t *testing.T, p *place) {
			require.NoError(t, p.tool.SetPolicy(rejoin.Policy{AbandonAfter: time.Minute}))
			kit.Elapse(2 * time.Minute)
		}, want: rejoin.ErrAbandoned, withdrawn: "there", response: "error(-32000,2) abandoned", ofCall: true, ofAway: true,
	},
	{
		name: "its session ended by the app", do: func(_ *testing.T, p *place) { p.tool.Session().End(nil) },
		want: rejoin.ErrSessionEnded, withdrawn: "there", response: "error(-32000,2) ended", gone: true, told: true,
	},
	{name: "its session deleted", do: func(_ *testing.T, p *place) { p.c.Delete() }, want: rejoin.ErrSessionEnded, gone: true},
	{
		name: "its server closed", do: func(_ *testing.T, p *place) { p.c.Server().Close() },
		want: rejoin.ErrShutdown, withdrawn: "there", response: "error(-32000,2) shutdown", ofCall: true, gone: true, told: true,
	},
	{
		name: "its server closed after a drain", do: func(t *testing.T, p *place) {
			require.Equal(t, &rejoin.DrainError{Running: 1}, <-kit.Drain(t, p.c.Server(), time.Minute))
		},
		want: rejoin.ErrShutdown, withdrawn: "there", response: "error(-32000,2) shutdown", ofCall: true, gone: true,
	},
	{
		name: "its server closed without a call", do: func(_ *testing.T, p *place) { p.c.Server().Close() },
		want: rejoin.ErrSessionEnded, withdrawn: "there", gone: true, told: true,
	},
}

var errBusy = errors.New("busy")

// answers sends an answer to the one question.
func answers(with string) func(*testing.T, *place) {
	return func(t *testing.T, p *place) {
		t.Helper()
		_, res := kit.Post(t, p.c, `{"jsonrpc":"2.0","id":"n.1",`+with+`}`)
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		synctest.Wait()
	}
}

// For each state of the stream and each outcome of the question: the asker gets the outcome once, with the reason; the client gets the
// question, and its withdrawal, once, on the right stream and in order; and nothing is left of the question.
func TestWhatBecomesOfAQuestion(t *testing.T) {
	for _, at := range places {
		for _, out := range outcomes {
			running := at.on == "call" || at.on == "session"
			away := strings.HasPrefix(at.name, "parked") || at.name == "closed"
			if out.ofCall && !running || out.ofAway && !away || running && strings.HasSuffix(out.name, "without a call") {
				continue
			}
			t.Run(at.name+"/"+out.name, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					p := newPlace(t, at.version, at.policy, at.noFlush)
					if at.reach != nil {
						at.reach(p)
					}
					p.ask(at.on)
					require.Empty(t, p.got)
					out.do(t, p)
					synctest.Wait()
					require.Len(t, p.got, 1)
					require.Equal(t, out.want, <-p.got)

					asked, told := "roots/list", ""
					if out.withdrawn != "" {
						told = " cancelled(n.1)"
					}
					onCall, onSession := at.before, ""
					switch {
					case away && (out.gone || out.name == "its call cancelled"): // the client polls too late to get the question
					case at.on == "call":
						onCall += asked
						if out.withdrawn == "there" {
							onCall += told
						}
					default:
						onSession = asked
					}
					if (out.withdrawn == "session" || out.withdrawn == "there" && at.on != "call") && (!out.gone || out.told && p.listen != nil) {
						onSession += told
					}
					if running && (!away || !out.gone) {
						onCall += " " + out.response
					}
					if !running {
						onCall = "result" // unchanged
					}
					require.Equal(t, strings.TrimSpace(onCall), p.onCall(t, out.gone), p.call)
					if p.listen != nil || !p.c.Server().Draining() && !out.gone {
						require.Equal(t, strings.TrimSpace(onSession), p.onSession(t, out.gone), p.listen)
					}

					if !out.gone {
						answers(`"result":"late"`)(t, p)
						p.c.Delete()
					}
					require.Empty(t, p.got, "told once")
					p.leavesNothing(t)
				})
			})
		}
	}
}

func newPlace(t *testing.T, version string, policy rejoin.Policy, noFlush bool) *place {
	t.Helper()
	onRequest, _ := silent(t)
	app, next := kit.ManualTools()
	c := kit.New(t, app, rejointest.Config{
		Version: version, OnRequest: onRequest,
		Server: rejoin.Config{Node: "n", Policy: policy, Logger: kit.QuietLogger()},
		Handler: func(s *rejoin.Server) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if noFlush && r.Method == http.MethodPost {
					w = struct{ http.ResponseWriter }{w}
				}
				s.Serve(w, r)
			})
		},
	})
	p := &place{c: c, got: make(chan any, 2)}
	p.call = c.CallTool("x", nil)
	p.tool = next()
	return p
}

// ask asks as a tool does, or, if no call runs, as an app.
func (p *place) ask(on string) {
	ctx := p.tool.Ctx
	switch on {
	case "session without a call":
		p.tool.Returns("done") // this tool is not needed
		ctx = context.Background()
		fallthrough
	case "session of an ended call":
		cancel := p.tool.Session().AskFunc(ctx, "roots/list", nil, func(answer json.RawMessage, err error) {
			if err != nil {
				p.got <- err
				return
			}
			p.got <- string(answer)
		})
		p.giveUp = func(err error) { cancel(err.Error()); p.got <- err }
		synctest.Wait()
	default:
		ctx, cancel := context.WithCancelCause(ctx)
		p.giveUp = cancel
		p.got = p.tool.Asks(ctx, "roots/list")
	}
}

// onCall returns what the client gets on the call's stream.
func (p *place) onCall(t *testing.T, gone bool) string {
	t.Helper()
	if p.away && !gone {
		p.call.Poll()
	}
	return told(t, p.call.Messages())
}

// onSession returns what the client gets on the standalone stream.
func (p *place) onSession(t *testing.T, gone bool) string {
	t.Helper()
	switch {
	case p.listen == nil:
		p.listen = p.c.Listen()
	case p.listen.Open() == 0 && !gone:
		p.listen.Poll()
	}
	return told(t, p.listen.Messages())
}

// told describes messages by their methods, and withdrawals by what they withdraw.
func told(t *testing.T, messages []json.RawMessage) string {
	t.Helper()
	var words []string
	for _, raw := range messages {
		word := kit.MessageSummary(string(raw))
		if word == "cancelled" {
			var m struct{ Params struct{ RequestID string } }
			require.NoError(t, json.Unmarshal(raw, &m))
			word += "(" + m.Params.RequestID + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// leavesNothing checks that nothing is left of a session that has ended, and that no question waits for an answer.
func (p *place) leavesNothing(t *testing.T) {
	t.Helper()
	for _, stack := range kit.Goroutines() {
		require.False(t, slices.ContainsFunc([]string{"rejoin.(*Handle).Request", "rejoin.(*Session)", "rejoin.(*conn)"},
			func(name string) bool { return strings.Contains(stack, name) }), stack)
	}
	stats := p.c.Server().Stats()
	require.Zero(t, stats.Sessions+stats.Streams+stats.Connections+stats.Parked+stats.StoredBytes, "%+v", stats)
}
