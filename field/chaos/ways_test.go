//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// limit is how long something that must happen may take. These tests use real sockets, since the proxies are made of them.
const limit = 10 * time.Second

// echo is a server that sends back each line.
func echo(t *testing.T) string {
	t.Helper()
	port, err := listenLow()
	require.NoError(t, err)
	t.Cleanup(func() { _ = port.Close() })
	go func() {
		for {
			c, err := port.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return port.Addr().String()
}

// linked returns a link to a server that says what it hears, and a connection through it that works.
func linked(t *testing.T) (l *link, c net.Conn, r *bufio.Reader) {
	t.Helper()
	l, err := newLink(echo(t))
	require.NoError(t, err)
	t.Cleanup(l.close)
	c = dial(t, l.addr)
	r = bufio.NewReader(c)
	say(t, c, "before")
	require.Equal(t, "before", hear(t, r))
	return l, c, r
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(limit)))
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text+"\n")
	require.NoError(t, err)
}

func hear(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(text)
}

// What waits on a link that was cut arrives when it is up again, in order, on the same connection.
func TestALinkThatWasCut(t *testing.T) {
	t.Parallel()
	for is, name := range states {
		if is == refused {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, c, r := linked(t)
			require.NoError(t, l.set(is))
			say(t, c, "meanwhile")
			if is != slow { // nothing tells that nothing comes, so a short time must do
				require.NoError(t, c.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
				_, err := r.ReadByte()
				require.ErrorContains(t, err, "timeout")
				require.NoError(t, c.SetReadDeadline(time.Now().Add(limit)))
				require.NoError(t, l.set(up))
			}
			require.Equal(t, "meanwhile", hear(t, r))
			say(t, c, "after")
			require.Equal(t, "after", hear(t, r))
		})
	}
}

func TestALinkThatRefuses(t *testing.T) {
	t.Parallel()
	l, _, r := linked(t)
	require.NoError(t, l.set(refused))
	_, err := r.ReadByte()
	require.Error(t, err, "its connections are reset")
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", l.addr)
	require.Error(t, err)
	require.NoError(t, l.set(up))
	c := dial(t, l.addr)
	say(t, c, "after")
	require.Equal(t, "after", hear(t, bufio.NewReader(c)))
}

// The way to a process that has closed its port takes no connection, whatever else is made of it, and those that there are go on.
func TestALinkToNoProcess(t *testing.T) {
	t.Parallel()
	l, c, r := linked(t)
	require.NoError(t, l.setShut(true))
	require.NoError(t, l.set(slow))
	require.NoError(t, l.set(up))
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.addr)
	require.Error(t, err)
	say(t, c, "after")
	require.Equal(t, "after", hear(t, r))
	require.NoError(t, l.setShut(false))
	dial(t, l.addr)
}

// A request goes to each process in turn, past those that take no connection. What may have arrived is sent once; but a GET is tried again.
func TestTheSprayer(t *testing.T) {
	t.Parallel()
	s, err := newSprayer()
	require.NoError(t, err)
	defer s.close()
	var posts, gets atomic.Int64
	serve := func(h http.HandlerFunc) backend {
		port, err := listenLow()
		require.NoError(t, err)
		web := &http.Server{Handler: h, ReadHeaderTimeout: limit}
		go func() { _ = web.Serve(port) }()
		t.Cleanup(func() { _ = web.Close() })
		return backend{port.Addr().String(), port.Addr().String()}
	}
	free, err := freeAddr()
	require.NoError(t, err)
	good := serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	dying := serve(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			gets.Add(1)
		} else {
			posts.Add(1)
		}
		panic(http.ErrAbortHandler)
	})
	do := func(method string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, s.url("/own"), strings.NewReader("{}"))
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		return answer.StatusCode
	}
	s.set([]backend{{"nobody", free}, good})
	for range 4 {
		require.Equal(t, http.StatusAccepted, do(http.MethodPost), "past the port without a process")
	}
	s.set([]backend{dying})
	require.Equal(t, http.StatusBadGateway, do(http.MethodPost))
	require.Equal(t, int64(1), posts.Load())
	s.set([]backend{dying, good})
	for range 4 {
		require.Equal(t, http.StatusAccepted, do(http.MethodGet))
	}
	require.Equal(t, int64(2), gets.Load(), "the turns of the other one")
	s.set([]backend{{"nobody", free}})
	require.Equal(t, http.StatusBadGateway, do(http.MethodGet))
	require.Len(t, s.troubles(), 2, "what a client may have to act on is noted")
}

// A stream is looked at by its ids.
func TestWhatAStreamShows(t *testing.T) {
	t.Parallel()
	event := func(id, data string) sse.Event {
		return sse.Event{ID: id, HasID: true, Data: []byte(data), HasData: true, Retry: -1}
	}
	for _, c := range []struct {
		name string
		show func(s *stream)
		want string
	}{
		{"in order, with primers", func(s *stream) {
			s.event(event("a.0.x", ""))
			s.event(event("a.1", "1"))
			s.begin("a.1", "p1")
			s.event(event("a.1.y", ""))
			s.event(event("a.2", "2"))
		}, ""},
		{"the same from an older cursor", func(s *stream) {
			s.event(event("a.1", "1"))
			s.event(event("a.2", "2"))
			s.begin("a.0.x", "p1")
			s.event(event("a.1", "1"))
		}, ""},
		{"a gap", func(s *stream) { s.begin("a.1", "p1"); s.event(event("a.3", "3")) }, lost},
		{"a step back", func(s *stream) { s.begin("a.3", "p1"); s.event(event("a.3", "3")) }, disorder},
		{"another event", func(s *stream) { s.event(event("a.1", "1")); s.begin("a.0.x", "p1"); s.event(event("a.1", "2")) }, twoMeanings},
		{"an error in place of what is lost", func(s *stream) { s.event(event("a.1", "1")); s.event(event("a.1.z", "2")) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &record{Name: "raw-1"}
			s := newStream(r, func([]byte) {})
			s.begin("", "p1")
			c.show(s)
			if c.want == "" {
				require.Empty(t, r.Faults)
				return
			}
			require.Len(t, r.Faults, 1)
			require.Equal(t, c.want, r.Faults[0].What)
		})
	}
	s := newStream(&record{}, func([]byte) {})
	for _, id := range []string{"a.0.x", "a.1", "a.2"} {
		s.named(id)
	}
	require.Equal(t, "a.1", s.cursor(1))
	require.Equal(t, "a.1", s.cursor(5), "what a cursor has acknowledged is not asked for again")
	require.Equal(t, "a.2", s.cursor(0))
}

// What an SDK makes of an answer does not matter: the sprayer knows what has passed.
func TestATapKnowsWhatHasPassed(t *testing.T) {
	t.Parallel()
	s, err := newSprayer()
	require.NoError(t, err)
	defer s.close()
	port, err := listenLow()
	require.NoError(t, err)
	web := &http.Server{ReadHeaderTimeout: limit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, "id: s.0.x\nretry: 1\ndata:\n\n")
			return
		}
		_, _ = io.WriteString(w, "id: s.1\ndata: {\"id\":7,\"error\":{\"code\":1,\"message\":\"\",\"data\":{\"reason\":\"owner_lost\"}}}\n\n")
	})}
	go func() { _ = web.Serve(port) }()
	defer web.Close()
	s.set([]backend{{"p1", port.Addr().String()}})
	do := func(method, cursor, body string) {
		r, err := http.NewRequestWithContext(t.Context(), method, s.url("/own"), strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Last-Event-Id", cursor)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
	}
	do(http.MethodPost, "", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"work","arguments":{"call":"go-sdk-1"}}}`)
	f := s.taps.of("go-sdk-1").facts()
	require.Equal(t, "s.0.x", f.LastID)
	require.Empty(t, f.Answer)
	do(http.MethodGet, "s.0.x", "")
	f = s.taps.of("go-sdk-1").facts()
	require.Equal(t, "s.1", f.LastID)
	require.Equal(t, "owner_lost", f.Answer)
	require.Equal(t, []string{"p1"}, f.Fronts)
}

// A power cut takes what was written in the last moments, and nothing else.
func TestWhatAPowerCutLeaves(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := &engine{sizes: map[string][]size{"f": {{now.Add(-5 * time.Second), 10}, {now.Add(-2 * time.Second), 20}, {now, 30}}}}
	n, known := e.left("f")
	require.True(t, known)
	require.Equal(t, int64(20), n)
	_, known = e.left("new")
	require.False(t, known)
}

func TestPauseReturnsTheCause(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.EOF)
	require.ErrorIs(t, pause(ctx, time.Hour), io.EOF)
}
