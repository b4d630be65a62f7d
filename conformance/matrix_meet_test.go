//go:build node

package conformance_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// How long a client gets: to connect, to call, to fetch a result that is ready, to request its standalone stream and to request it again, and
// to end.
const (
	toConnect = 30 * time.Second
	toCall    = time.Minute
	toFetch   = 6 * time.Second
	toListen  = 2 * time.Second
	toReturn  = 4 * time.Second
	toLeave   = 3 * time.Second
)

// The outcomes of a call. An error is followed by the client's message.
const (
	endsWell, endsBadly = "result", "error"
	endsEmpty           = "**empty result**"
	hangs               = "hangs"
)

// sight is what a client did in one scenario.
type sight struct {
	version string   // the negotiated version
	info    string   // clientInfo: name and version
	agent   string   // its User-Agent
	end     string   // the outcome of the call
	letGo   int      // how often the server ended a stream early: that of the call, or in the idle scenario the standalone one
	back    int      // how often the client polled after that
	tasks   int      // how often a call was answered with a task
	forced  bool     // a call that did not declare tasks was answered with one
	stopped bool     // the tool's context ended
	told    int      // progress notifications that arrived
	steps   int      // status messages that arrived, each counted once
	asked   int      // questions that arrived
	listens bool     // it requested the standalone stream
	logs    []string // what it wrote about problems, without what differs between runs
}

// encounter is a client process that is connected to a server of its own.
type encounter struct {
	peer

	command []string
	cmd     *exec.Cmd
	exited  chan struct{}
	hands   chan hand     // of the running call
	leave   chan struct{} // closed when the call of the idle scenario shall end
	worked  bool          // the tool has returned; guarded by the mutex
	stopped bool          // its context had ended; guarded by the mutex
}

// meet runs a scenario. Everything that the client does is a result; only a problem of the test itself fails it.
func meet(t *testing.T, client string, command []string, in setting, what scenario) sight {
	t.Helper()
	e := &encounter{
		peer:  peer{wire: newWire(nil), changed: make(chan struct{})},
		hands: make(chan hand, 1), leave: make(chan struct{}),
	}
	handler, end := in.start(t, tools{cmp.Or(what.call, "work"): e.tool(what)}, rejoin.Config{
		Eras: in.eras, Policy: what.policy, Logger: slog.New(slog.DiscardHandler),
		Tasks: rejoin.Tasks{PollInterval: toPoll},
	})
	server := httptest.NewUnstartedServer(e.wire.record(handler))
	kept := &recording{Listener: server.Listener}
	if recorded(in, what) {
		server.Listener = kept
		defer kept.write(t, client, in)
	}
	server.Start()
	defer server.Close()
	defer end() // if the client hangs, server.Close would wait for ever
	address := server.URL
	if what.front != nil {
		address = what.front(t, address)
	}
	e.command = slices.Concat(command, []string{address + "/mcp"})
	e.start(t)
	defer func() { e.kill() }()

	var s sight
	s.end = e.call(t, what, &s)
	if s.end == endsWell || strings.HasPrefix(s.end, endsBadly) {
		_ = e.stdin.Close() // the client may have ended already
		e.until(toLeave, func() bool { return e.over })
	}
	e.look(&s, what)
	return s
}

// start starts the server of the setting, and returns what is before it.
func (s setting) start(t *testing.T, list tools, cfg rejoin.Config) (front http.Handler, end func()) {
	t.Helper()
	if s.processes > 1 {
		all := startProcesses(t, s.processes, func() rejoin.App { return s.app(list) }, cfg)
		return all.front(), all.close
	}
	srv, err := rejoin.NewServer(s.app(list), cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	return mux, srv.Close
}

// tool is the tool of a scenario, which also tells the encounter about itself.
func (e *encounter) tool(what scenario) tool {
	return func(ctx context.Context, h hand, args json.RawMessage) (string, error) {
		defer e.update(func() { e.worked, e.stopped = true, ctx.Err() != nil })
		select {
		case e.hands <- h:
		default: // the client calls twice; the record shows that
		}
		if what.idles {
			select {
			case <-e.leave:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		return what.run(ctx, h, args)
	}
}

// start starts the client in a process group of its own, with a home folder of its own.
func (e *encounter) start(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(e.command[0], e.command[1:]...) // kill ends the whole group
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "NO_COLOR=1",
		"MASTRA_TELEMETRY_DISABLED=1", "OPENAI_AGENTS_DISABLE_TRACING=1")
	cmd.WaitDelay = time.Second
	cmd.Stdout = lines(func(text string) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Kind == "" {
			l = line{Kind: "garbage", Text: text}
		}
		e.update(func() { e.seen = append(e.seen, l) })
	})
	cmd.Stderr = lines(func(text string) { e.update(func() { e.seen = append(e.seen, line{Kind: "stderr", Text: text}) }) })
	var err error
	e.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	e.cmd, e.exited = cmd, exited
	go func() {
		_ = cmd.Wait() // its exit code does not matter
		e.update(func() { e.over = true })
		close(exited)
	}()
}

func (e *encounter) kill() {
	_ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL) // the whole group
	<-e.exited
}

// call lets the client call the tool, and returns the outcome.
func (e *encounter) call(t *testing.T, what scenario, s *sight) string {
	t.Helper()
	if fault := e.order("call " + cmp.Or(what.call, "work")); fault != "" {
		return fault
	}
	if what.idles {
		e.idle(s)
		close(e.leave)
	}
	if what.meddle != nil {
		if fault := what.meddle(t, e); fault != "" {
			return fault
		}
	}
	if !e.until(toCall, func() bool { return e.answered() || e.worked }) {
		return "does not call"
	}
	e.until(toFetch, e.answered)
	switch {
	case e.locked(func() bool {
		return slices.ContainsFunc(e.seen, func(l line) bool { return l.Kind == "result" && l.Text == "" })
	}):
		return endsEmpty
	case e.locked(func() bool { return e.says("result") }):
		return endsWell
	case e.locked(func() bool { return e.says("error") }):
		return e.complaint(endsBadly)
	default:
		return hangs
	}
}

// order sends an order to the client when it is connected.
func (e *encounter) order(words string) (fault string) {
	connected := func() bool { return e.says("connected") }
	if e.until(toConnect, func() bool { return e.over || connected() }); !e.locked(connected) {
		return e.complaint("does not connect")
	}
	if _, err := fmt.Fprintln(e.stdin, words); err != nil {
		return e.complaint("does not obey")
	}
	return ""
}

// answered reports whether the client has received what it called for, or has given up. The mutex must be held.
func (e *encounter) answered() bool { return e.over || e.says("result") || e.says("error") }

// idle closes the standalone stream again and again, as long as the client requests it again.
func (e *encounter) idle(s *sight) {
	var h hand
	select {
	case h = <-e.hands:
	case <-time.After(toConnect):
		return
	}
	var since time.Time
	const session = "Mcp-Session-Id" // mcp-remote has another one, of its own
	call := e.wire.all(func(x *exchange) bool { return x.calls("tools/call") })[0]
	listens := func(x *exchange) bool {
		return x.method == http.MethodGet && x.status == http.StatusOK && !x.ended && x.sent.After(since) && x.header.Get(session) == call.header.Get(session)
	}
	for limit := toListen; e.wire.untilSent(limit, 1, listens); limit = toReturn {
		if s.listens = true; s.letGo > 0 {
			s.back++
		}
		since = time.Now()
		if s.back == letGoes || h.CloseStandaloneStream(comeBack) != nil {
			return
		}
		s.letGo++
	}
}

// says reports whether the client has printed a line of that kind.
func (e *encounter) says(kind string) bool {
	return slices.ContainsFunc(e.seen, func(l line) bool { return l.Kind == kind })
}

func (e *encounter) locked(ask func() bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return ask()
}

// complaint returns fault, and what the client printed about it.
func (e *encounter) complaint(fault string) string {
	for _, l := range e.all() {
		if l.Kind == "error" || l.Kind == "failed" {
			return fault + ": " + plain(l.Text)
		}
	}
	return fault
}
