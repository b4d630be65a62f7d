//go:build node

package conformance_test

import (
	"bufio"
	"bytes"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// recordTo is the folder for recordings of what clients send, which are seeds of the fuzz targets of raw HTTP: ../internal/rawhttp/recorded.
// They are recorded in a scenario in which the server disconnects the client once.
var recordTo = flag.String("record", "", "a folder for scripts of what the clients send")

// recorded reports whether a scenario is recorded.
func recorded(in setting, what scenario) bool {
	return *recordTo != "" && what.name == "CloseStream" && in.server == "go-sdk"
}

// recording is a listener that records what clients send, request by request.
type recording struct {
	net.Listener

	mu     sync.Mutex
	conns  int
	last   int // the connection of the last request
	script strings.Builder
}

func (l *recording) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns++
	return &recordedConn{Conn: c, l: l, n: l.conns}, nil
}

// recordedConn is a connection of a recording. Only one goroutine of net/http reads it at a time.
type recordedConn struct {
	net.Conn

	l   *recording
	n   int
	got []byte // the part of a request that has come so far
}

func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.got = append(c.got, p[:n]...)
	for {
		raw := bytes.NewReader(c.got)
		in := bufio.NewReader(raw)
		r, broken := http.ReadRequest(in)
		if broken == nil {
			_, broken = io.Copy(io.Discard, r.Body)
		}
		if broken != nil {
			return n, err
		}
		whole := len(c.got) - raw.Len() - in.Buffered()
		c.l.keep(c.n, string(c.got[:whole]))
		c.got = c.got[whole:]
	}
}

// blanks are values that differ between runs, with their placeholders in a script.
var blanks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?i)(\r\nmcp-session-id: )[^\r]*`), "${1}{{session}}"},
	{regexp.MustCompile(`(?i)(\r\nlast-event-id: )[^\r]*`), "${1}{{cursor}}"},
	{regexp.MustCompile(`(?i)(\r\ncontent-length: )[^\r]*`), "${1}{{length}}"},
	{regexp.MustCompile(`(?i)(\r\nhost: )[^\r]*`), "${1}localhost"},
	{regexp.MustCompile(`(?i)(\r\nmcp-name: |"name":")work\b`), "${1}poll"},
}

// keep adds a request. In the script a poll is sent when it is due.
func (l *recording) keep(conn int, request string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range blanks {
		request = b.what.ReplaceAllString(request, b.with)
	}
	if strings.Contains(request, "{{cursor}}") {
		l.script.WriteString("{{later}}")
	}
	if l.last != 0 && conn != l.last {
		l.script.WriteString("{{new}}")
	}
	l.last = conn
	l.script.WriteString(request + "{{wait}}")
}

// write writes a recording to its file.
func (l *recording) write(t *testing.T, client string, in setting) {
	t.Helper()
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9.]+`).ReplaceAllString(strings.ToLower(client), "-"), "-")
	if in.eras == rejoin.EraBoth {
		name += "-both"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NoError(t, os.WriteFile(filepath.Join(*recordTo, name+".http"), []byte(l.script.String()), 0o600))
}
