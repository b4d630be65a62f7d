//go:build node

package conformance_test

import (
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

// How long a client gets, each time: to connect and to call, to fetch a result that is there, to open its standalone stream and to come
// back to it, and to end.
const (
	toConnect = 30 * time.Second
	toFetch   = 6 * time.Second
	toListen  = 2 * time.Second
	toReturn  = 4 * time.Second
	toLeave   = 3 * time.Second
)

// What becomes of a call. An error is followed by what the client says of it.
const (
	endsWell, endsBadly = "result", "error"
	hangs               = "hangs"
)

// sight is what was seen of a client in one scenario.
type sight struct {
	version string   // that was negotiated
	info    string   // what it says that it is: name and version
	agent   string   // its User-Agent
	end     string   // of the call
	letGo   int      // how often a stream was ended before its time: that of the call, or when idle the standalone one
	back    int      // how often it came back to it
	told    int      // reports of progress that arrived
	listens bool     // it has opened a standalone stream
	logs    []string // what it says of trouble, by whatever means, without what differs from run to run
}

// encounter is a client in a process of its own that is connected to a server of its own.
type encounter struct {
	peer

	cmd    *exec.Cmd
	exited chan struct{}
	hands  chan hand     // of the call
	leave  chan struct{} // the call of the idle scenario shall end
	worked bool          // the tool has returned; guarded by the mutex
}

// meet runs a scenario. Whatever the client does is a result: only what is wrong with the test fails it.
func meet(t *testing.T, client string, command []string, in setting, what scenario) sight {
	t.Helper()
	e := &encounter{
		peer:   peer{wire: newWire(nil), changed: make(chan struct{})},
		exited: make(chan struct{}), hands: make(chan hand, 1), leave: make(chan struct{}),
	}
	srv, err := rejoin.NewServer(in.app(tools{"work": e.tool(what)}), rejoin.Config{
		Eras: in.eras, Policy: what.policy, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	server := httptest.NewUnstartedServer(e.wire.record(mux))
	kept := &recording{Listener: server.Listener}
	if recorded(in, what) {
		server.Listener = kept
		defer kept.write(t, client, in)
	}
	server.Start()
	defer server.Close()
	defer srv.Close() // of a client that hangs, server.Close would wait for ever
	e.start(t, slices.Concat(command, []string{server.URL + "/mcp"}))
	defer e.kill()

	var s sight
	s.end = e.call(what, &s)
	if s.end == endsWell || strings.HasPrefix(s.end, endsBadly) {
		_ = e.stdin.Close() // it may have ended already
		e.until(toLeave, func() bool { return e.over })
	}
	e.look(&s, what)
	return s
}

// tool is the tool of a scenario, watched.
func (e *encounter) tool(what scenario) tool {
	return func(ctx context.Context, h hand, args json.RawMessage) (string, error) {
		defer e.update(func() { e.worked = true })
		select {
		case e.hands <- h:
		default: // it calls twice, of which the wire tells
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

// start starts the client, in a group with all that it starts itself, and far from the files of whoever runs the test.
func (e *encounter) start(t *testing.T, command []string) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(command[0], command[1:]...) // it is ended with all that it has started
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
	e.cmd = cmd
	go func() {
		_ = cmd.Wait() // how it ends is no matter here
		e.update(func() { e.over = true })
		close(e.exited)
	}()
}

func (e *encounter) kill() {
	_ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL) // nobody may be left
	<-e.exited
}

// call has the client call the tool, and says how that went.
func (e *encounter) call(what scenario, s *sight) string {
	connected := func() bool { return e.says("connected") }
	if e.until(toConnect, func() bool { return e.over || connected() }); !e.locked(connected) {
		return e.complaint("does not connect")
	}
	if _, err := fmt.Fprintln(e.stdin, "call work"); err != nil {
		return e.complaint("does not obey")
	}
	if what.idles {
		e.idle(s)
		close(e.leave)
	}
	answered := func() bool { return e.over || e.says("result") || e.says("error") }
	if !e.until(toConnect, func() bool { return answered() || e.worked }) {
		return "does not call"
	}
	e.until(toFetch, answered)
	switch {
	case e.locked(func() bool { return e.says("result") }):
		return endsWell
	case e.locked(func() bool { return e.says("error") }):
		return e.complaint(endsBadly)
	default:
		return hangs
	}
}

// idle lets the standalone stream go, again and again, as long as the client comes back.
func (e *encounter) idle(s *sight) {
	var h hand
	select {
	case h = <-e.hands:
	case <-time.After(toConnect):
		return
	}
	var since time.Time
	listens := func(x *exchange) bool {
		return x.method == http.MethodGet && x.status == http.StatusOK && !x.ended && x.sent.After(since)
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

// says reports whether the client has said something of that kind.
func (e *encounter) says(kind string) bool {
	return slices.ContainsFunc(e.seen, func(l line) bool { return l.Kind == kind })
}

func (e *encounter) locked(ask func() bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return ask()
}

// complaint is the fault, and what the client says of it.
func (e *encounter) complaint(fault string) string {
	for _, l := range e.all() {
		if l.Kind == "error" || l.Kind == "failed" {
			return fault + ": " + plain(l.Text)
		}
	}
	return fault
}
