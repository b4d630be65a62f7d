package conformance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// program is a client to be started, with what is known about it.
type program struct {
	command []string // the URL of the server is added
	version string   // the version that it negotiates
	probes  bool     // it supports both eras, and tries the modern one first
	listens bool     // it requests the standalone stream
	cursor  bool     // it resumes that stream with a cursor, after the time that it was told
	rereads bool     // it does not treat an error as the response, and polls once more
	fragile bool     // its call ends when the connection breaks, even if it can poll
	tells   string   // what it reports of a stream that breaks off, and then it comes back; "": nothing

	app  func(tools) rejoin.App // makes the app of its server
	eras rejoin.Eras            // the eras of its server

	processes int // the server is so many processes, which get the requests in turn; 0: one, and no cluster
}

// peer is a client process that is connected to a server of its own. clients/gosdk/main.go describes the lines that the two exchange.
type peer struct {
	srv       *rejoin.Server // nil if there are processes
	processes processes
	url       string
	wire      *wire
	tells     string // what it may report

	stdin io.WriteCloser

	mu      sync.Mutex
	seen    []line
	changed chan struct{} // closed at each change
	over    bool          // it has closed stdout
}

// line is a line of the client's stdout: what the client received.
type line struct {
	Kind string `json:"kind"`
	Of   string `json:"of"`
	Text string `json:"text"`
}

// start starts a server with the tools and a client, and returns when they are connected. The client must exit with 0.
func start(t *testing.T, client program, cfg rejoin.Config, list tools) *peer {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Eras = client.eras
	p := &peer{wire: newWire(nil), tells: client.tells, changed: make(chan struct{})}
	front, end := p.serve(t, client, cfg, list)
	server := httptest.NewServer(p.wire.record(front))
	p.url = server.URL
	t.Cleanup(server.Close)
	t.Cleanup(end) // if the client hangs, server.Close would wait for ever

	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(kill)
	cmd := exec.CommandContext(ctx, client.command[0], slices.Concat(client.command[1:], []string{server.URL + "/mcp"})...)
	cmd.Stderr = os.Stderr
	var err error
	p.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	go p.listen(stdout)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the client says %v", p.all())
			kill()
		}
		p.waitFor(t, "the client's end", func() bool { return p.over })
		if err := cmd.Wait(); !t.Failed() {
			require.NoError(t, err, "the client must end well")
		}
	})
	p.requireSeen(t, "connected", "", client.version)
	if client.listens {
		p.wire.wait(t, 1, "standalone stream", p.wire.standalone())
	}
	return p
}

// serve starts what the client talks to.
func (p *peer) serve(t *testing.T, client program, cfg rejoin.Config, list tools) (front http.Handler, end func()) {
	t.Helper()
	if client.processes > 0 {
		p.processes = startProcesses(t, client.processes, func() rejoin.App { return client.app(list) }, cfg)
		return p.processes.front(), p.processes.close
	}
	srv, err := rejoin.NewServer(client.app(list), cfg)
	require.NoError(t, err)
	p.srv = srv
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	return mux, srv.Close
}

// stats are the numbers of the server. Of several processes it has the sums of those that the tests use.
func (p *peer) stats() rejoin.Stats {
	if p.srv != nil {
		return p.srv.Stats()
	}
	return p.processes.stats()
}

func (p *peer) listen(stdout io.Reader) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			l = line{Kind: "garbage", Text: lines.Text()}
		}
		p.update(func() { p.seen = append(p.seen, l) })
	}
	p.update(func() { p.over = true })
}

func (p *peer) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// waitFor waits until wanted, which the mutex guards, returns true.
func (p *peer) waitFor(t *testing.T, what string, wanted func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		done, over, changed := wanted(), p.over, p.changed
		p.mu.Unlock()
		if done {
			return
		}
		if over {
			t.Fatalf("the client ended before it had seen %s; it says %v", what, p.all())
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("did not come: %s; the client says %v", what, p.all())
		}
	}
}

func (p *peer) all() []line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// texts returns the texts of a kind that the client has received, in order.
func (p *peer) texts(kind, of string) (texts []string) {
	for _, l := range p.all() {
		if l.Kind == kind && l.Of == of {
			texts = append(texts, l.Text)
		}
	}
	return texts
}

// order sends a line to the client.
func (p *peer) order(t *testing.T, words string) {
	t.Helper()
	_, err := fmt.Fprintln(p.stdin, words)
	require.NoError(t, err, "the client says %v", p.all())
}

// await waits until the client has received n texts of a kind.
func (p *peer) await(t *testing.T, n int, kind, of string) {
	t.Helper()
	p.waitFor(t, fmt.Sprintf("%d times %s %s", n, kind, of), func() bool {
		count := 0
		for _, l := range p.seen {
			if l.Kind == kind && l.Of == of {
				count++
			}
		}
		return count >= n
	})
}

// requireSeen waits until the client has received as many texts of a kind as wanted, and compares them.
func (p *peer) requireSeen(t *testing.T, kind, of string, want ...string) {
	t.Helper()
	p.await(t, len(want), kind, of)
	require.Equal(t, want, p.texts(kind, of), "%s %s: each once and in order", kind, of)
}

// leave lets the client end its session. It checks that the session has ended, and that the client has reported no problem.
func (p *peer) leave(t *testing.T) {
	t.Helper()
	require.NoError(t, p.stdin.Close())
	p.requireSeen(t, "ended", "", "")
	p.waitFor(t, "the client's end", func() bool { return p.over })
	for _, trouble := range p.texts("trouble", "") {
		require.Equal(t, p.tells, trouble)
	}
	require.Len(t, p.wire.all(func(e *exchange) bool { return e.method == http.MethodDelete }), 1,
		"the session must live until its client ends it")
	require.Zero(t, p.stats().Sessions, "the client's DELETE leaves nothing")
	require.Zero(t, p.stats().StoredBytes, "the client's DELETE leaves nothing")
}
