package hop

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mute is a way to a server. What is sent over the connections that were made before it was last told to hold is swallowed: they are dead, and no one knows.
type mute struct {
	at, to string
	since  atomic.Int64 // connections up to this one are dead
	made   atomic.Int64
}

func newMute(t *testing.T, to string) *mute {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &mute{at: l.Addr().String(), to: to}
	t.Cleanup(func() { _ = l.Close() })
	var open sync.Map
	t.Cleanup(func() {
		open.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			open.Store(c, true)
			open.Store(s, true)
			n := m.made.Add(1)
			pass := func(to, from net.Conn) {
				b := make([]byte, 4096)
				for {
					k, err := from.Read(b)
					if m.since.Load() >= n {
						_, _ = io.Copy(io.Discard, from)
						return
					}
					if k > 0 {
						_, _ = to.Write(b[:k])
					}
					if err != nil {
						_ = to.Close()
						return
					}
				}
			}
			go pass(s, c)
			go pass(c, s)
		}
	}()
	return m
}

// A connection that is dead and was not closed is given up: the process behind it answers on others.
func TestADeadConnectionIsGivenUp(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(Mark, "I")
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	m := newMute(t, server.Listener.Addr().String())
	f := New(Config{Self: "http://self", Lease: 3 * time.Second, Gone: func(Owner) bool { return false }})
	f.transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
	t.Cleanup(f.CloseIdle)
	o := Owner{"https://" + m.at, "I"}
	require.True(t, strings.HasPrefix(whole(t, f, o, post(t, []byte("{}"))), "HTTP/2"))
	m.since.Store(m.made.Load())
	began := time.Now()
	for {
		a, err := f.Send(o, post(t, []byte("{}")))
		if err == nil {
			a.Close()
			break
		}
		require.Less(t, time.Since(began), 9*time.Second, "%v", err)
	}
}
