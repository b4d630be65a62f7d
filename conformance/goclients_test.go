package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// builds are the clients that were built, by folder and .mod file. programs is the folder of their binaries.
var (
	builds   sync.Map
	programs string
)

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "clients"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(programs); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// build builds the client in a folder of clients, with the requirements of a .mod file, unless it was built before.
func build(t *testing.T, folder, mod string) string {
	t.Helper()
	once, _ := builds.LoadOrStore(folder+"-"+mod, &sync.Once{})
	path := filepath.Join(programs, folder+"-"+mod)
	once.(*sync.Once).Do(func() { buildAs(t, path, folder, mod) })
	return path
}

func buildAs(t *testing.T, path, folder, mod string) {
	t.Helper()
	for _, name := range []string{mod, "main.go"} { // so that go test knows on which files a cached result depends
		_, err := os.Stat(filepath.Join("clients", folder, name))
		require.NoError(t, err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-modfile="+mod, "-o", path, ".")
	cmd.Dir = filepath.Join("clients", folder)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// driven returns the command of package client, built as it is in this repository.
func driven(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(programs, "drivenclient")
	once, _ := builds.LoadOrStore(path, &sync.Once{})
	once.(*sync.Once).Do(func() {
		_, err := os.Stat("drivenclient/main.go") // as in buildAs
		require.NoError(t, err)
		out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, "./drivenclient").CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	return []string{path}
}

func TestEarlierGoSDKPolls(t *testing.T) {
	for _, release := range []struct {
		mod    string
		probes bool
	}{
		{"v1.6.1.mod", false},
		{"go.mod", true}, // v1.7.0
	} {
		t.Run(release.mod, func(t *testing.T) {
			client := program{
				command: []string{build(t, "gosdk", release.mod)}, version: "2025-11-25",
				probes: release.probes, listens: true, cursor: true, app: newApp,
			}
			t.Run("connects", func(t *testing.T) { caseConnects(t, client) })
			t.Run("polls", func(t *testing.T) { casePolls(t, client) })
			t.Run("idle", func(t *testing.T) { caseIdle(t, client, 20) })
			t.Run("fails", func(t *testing.T) { caseFails(t, client) })
			t.Run("asks", func(t *testing.T) { caseAsks(t, client) })
		})
	}
}

// mcp-go requests the standalone stream only if it uses the legacy era alone. It reconnects to it after a second, whatever it was told.
func TestMCPGoPolls(t *testing.T) {
	path := build(t, "mcpgo", "go.mod")
	client := program{command: []string{path}, version: "2025-11-25", probes: true, app: newApp}
	listening := program{command: []string{path, "-listen"}, version: "2025-11-25", listens: true, app: newApp}
	t.Run("connects", func(t *testing.T) { caseConnects(t, client) })
	t.Run("connects and listens", func(t *testing.T) { caseConnects(t, listening) })
	t.Run("polls", func(t *testing.T) { casePolls(t, client) })
	t.Run("idle", func(t *testing.T) { caseIdle(t, listening, 2) })
	t.Run("fails", func(t *testing.T) { caseFails(t, client) })
	t.Run("asks", func(t *testing.T) { caseAsks(t, client) })
}

// Clients that do not know polling fail at a primer, at a retry without data, and at a close. They get none of these, whatever the tool asks
// for. They can handle comments.
func TestEarlierGoSDKIsNotPolled(t *testing.T) {
	for _, mod := range []string{"v1.2.0.mod", "v1.4.1.mod"} {
		t.Run(mod, func(t *testing.T) {
			const steps = 100
			client := program{command: []string{build(t, "gosdk", mod)}, version: "2025-06-18", listens: true, app: newApp}
			handles, started, release := make(chan hand, 1), make(chan struct{}), make(chan struct{})
			p := start(t, client, rejoin.Config{KeepAlive: 10 * time.Millisecond}, tools{
				"quick": quick,
				"many": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
					handles <- h
					<-started
					for i := range steps {
						if err := h.Progress(float64(i+1), steps, ""); err != nil {
							return "", err
						}
						if err := h.CloseStream(soon); !errors.Is(err, rejoin.ErrNotResumable) {
							return "", fmt.Errorf("it was closed: %w", err)
						}
						if err := h.CloseStandaloneStream(soon); !errors.Is(err, rejoin.ErrNotResumable) {
							return "", fmt.Errorf("the standalone stream was closed: %w", err)
						}
					}
					<-release
					return "done", nil
				},
				"fail": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
					return "", errors.Join(h.Progress(1, 1, ""), rejoin.Errorf(-32050, "out of luck"))
				},
			})
			p.order(t, "call many")
			h := receive(t, handles, "a running call")
			commented := func(what string, match func(*exchange) bool) {
				p.wire.wait(t, 1, what, func(e *exchange) bool { return match(e) && strings.Count(string(e.body), ": \n\n") > 3 })
			}
			commented("comment before the first event", func(e *exchange) bool { return e.calls("tools/call") })
			close(started)
			want := make([]string, steps)
			for i := range want {
				want[i] = fmt.Sprint(i + 1)
			}
			p.requireSeen(t, "progress", "many", want...)
			commented("comment on the standalone stream", func(e *exchange) bool { return e.method == http.MethodGet })
			require.NoError(t, h.Session().Notify(t.Context(), "notifications/message", json.RawMessage(`{"level":"info","data":"news"}`)))
			p.requireSeen(t, "log", "", "news")
			close(release)
			p.requireSeen(t, "result", "many", "done")
			p.order(t, "call fail")
			p.await(t, 1, "error", "fail")
			require.Contains(t, p.texts("error", "fail")[0], "out of luck")
			p.requireQuick(t)
			p.leave(t)

			require.EqualValues(t, 1, p.stats().Opened)
			require.Zero(t, p.stats().Closed)
			require.Zero(t, p.stats().Refused)
			require.Zero(t, p.stats().Resumed)
			gets := p.wire.all(func(e *exchange) bool { return e.method == http.MethodGet })
			require.Len(t, gets, 1, "one connection for the standalone stream, and none to resume anything")
			require.Equal(t, steps, requirePlainStreams(t, p.wire, "many"))
		})
	}
}

// requirePlainStreams checks that each event of each stream is a message with an id, and that nothing but events and comments was written. It
// returns the number of progress notifications with that token.
func requirePlainStreams(t *testing.T, w *wire, token string) (count int) {
	t.Helper()
	for _, e := range w.all(func(e *exchange) bool { return e.contentType() == "text/event-stream" }) {
		for block := range strings.SplitSeq(strings.TrimSuffix(string(e.body), "\n\n"), "\n\n") {
			if block == ": " {
				continue
			}
			require.Regexp(t, `\Aevent: message\nid: \S+\ndata: \{"jsonrpc":.*\}\z`, block, "%s: no primer, no retry", e.method)
			if strings.Contains(block, `"progressToken":"`+token+`"`) {
				count++
			}
		}
	}
	return count
}
