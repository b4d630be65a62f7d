//go:build nginx

package proxy

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// indexAfter returns where text goes on after a part.
func indexAfter(t *testing.T, text, part string) int {
	t.Helper()
	at := strings.Index(text, part)
	require.NotEqual(t, -1, at)
	return at + len(part)
}

// haproxy is a running HAProxy.
type haproxy struct {
	URL  string
	said said
}

// said is what a program has printed.
type said struct {
	mu      sync.Mutex
	text    []byte
	changed chan struct{}
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	close(s.changed)
	s.changed = make(chan struct{})
	return len(p), nil
}

func (s *said) now() (text string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text), s.changed
}

// await waits until the program has printed a text.
func (s *said) await(t *testing.T, want string) {
	t.Helper()
	for limit := time.After(patience); ; {
		text, changed := s.now()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("it does not say %q", want)
		}
	}
}

// runHAProxy starts HAProxy with a configuration that has the line "bind fd@3", and ends it with the test.
func runHAProxy(t *testing.T, conf string) *haproxy {
	t.Helper()
	h := &haproxy{said: said{changed: make(chan struct{})}}
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		binary = "/usr/sbin/haproxy" // Debian's, which is in root's path only
		_, err = os.Stat(binary)
	}
	require.NoError(t, err, "these tests need HAProxy: apt-get install haproxy")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	socket, err := l.(*net.TCPListener).File() // HAProxy inherits it, as nginx does
	require.NoError(t, err)
	defer socket.Close()
	require.NoError(t, l.Close())
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	require.NoError(t, os.WriteFile(path, []byte("global\n    maxconn 256\n    nbthread 2\n"+conf), 0o600))
	cmd := exec.Command(binary, "-db", "-f", path)
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Stdout, cmd.Stderr = &h.said, &h.said
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Error("HAProxy did not end")
		}
		if t.Failed() {
			text, _ := h.said.now()
			t.Logf("HAProxy said:\n%s", text)
		}
	})
	url := "http://" + l.Addr().String()
	awaitReady(t, url+"/ready")
	h.URL = url + "/mcp"
	return h
}

// awaitReady waits until a proxy passes requests on.
func awaitReady(t *testing.T, url string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); ; {
		r, err := http.NewRequestWithContext(deadline(t), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		r.Close = true
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("the proxy does not serve")
		}
	}
}
