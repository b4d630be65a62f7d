//go:build node

package conformance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// script is a process with a server of a TypeScript SDK, and a session of package client with it whose connections can be cut.
// servers/typescript/server.mjs describes its tools.
type script struct {
	*scissors
	session *client.Session
}

func TestTypeScriptServers(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "./install").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"v1", "v2"} {
		t.Run(name, func(t *testing.T) {
			s := launch(t, name)
			t.Run("lets go", s.letsGo)
			t.Run("listens", s.listens)
			t.Run("refuses", s.refuses)
			t.Run("is cut and goes on", s.goesOn)
			t.Run("is cut anywhere", s.cutAnywhere)
		})
		t.Run(name+" without a store", func(t *testing.T) {
			s := launch(t, name, "forgets")
			t.Run("refuses", s.refuses)
			t.Run("is cut", s.mayHaveRun)
		})
	}
}

func launch(t *testing.T, arguments ...string) *script {
	t.Helper()
	command := append([]string{"servers/typescript/server.mjs"}, arguments...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "node_modules/.bin/node", command...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close() // the process ends with its stdin
		require.NoError(t, cmd.Wait(), "the server must end well")
	})
	listening, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, "the server did not start")
	url := strings.TrimPrefix(strings.TrimSpace(listening), "listening on ")

	s := &script{scissors: &scissors{}}
	transport := &http.Transport{DialContext: s.dial(new(net.Dialer).DialContext)}
	t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.session, err = client.Connect(ctx, url, client.Config{
		HTTP: &http.Client{Transport: transport}, Logger: slog.New(slog.DiscardHandler),
		Backoff: 20 * time.Millisecond, BackoffMax: time.Second,
		Attempts: -1, // the deadline of the test decides when to give up
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		require.NoError(t, s.session.Close(ctx))
	})
	return s
}

// call calls a tool. It calls meanwhile with each message. It returns the messages as one text, and the text of the result.
func (s *script) call(t *testing.T, name, of string, meanwhile func(text string)) (told, text string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := s.session.Start(ctx, "tools/call", map[string]any{"name": name, "arguments": map[string]any{"of": of}})
	require.NoError(t, err)
	var all []string
	for m := range c.Messages() {
		all = append(all, dataOf(m))
		meanwhile(dataOf(m))
	}
	var result struct {
		Content []struct{ Text string }
	}
	if err := c.Wait(ctx, &result); err != nil {
		require.NotErrorIs(t, err, context.DeadlineExceeded, "a call must not hang")
		return strings.Join(all, " "), "", err
	}
	require.Len(t, result.Content, 1)
	return strings.Join(all, " "), result.Content[0].Text, nil
}

func quietly(string) {}

// dataOf is the text of a log message.
func dataOf(m client.Message) string {
	var params struct{ Data string }
	_ = json.Unmarshal(m.Params, &params) // without data it is ""
	return params.Data
}

// does calls a tool, which must succeed.
func (s *script) does(t *testing.T, name, of string) string {
	t.Helper()
	_, text, err := s.call(t, name, of, quietly)
	require.NoError(t, err, "%s %s", name, of)
	return text
}

func (s *script) letsGo(t *testing.T) {
	told, text, err := s.call(t, "polls", "4", func(string) { s.does(t, "go", "") })
	require.NoError(t, err)
	require.Equal(t, "done", text)
	require.Equal(t, "0 1 2 3", told)
	require.Equal(t, "1", s.does(t, "runs", "polls"), "sent once")
}

// listens receives notifications on the standalone stream, also after the server has closed the stream and after its connection broke. The
// stream has event ids from the first message on.
func (s *script) listens(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	heard, left := make(chan string, 10), make(chan error, 1)
	go func() {
		var err error
		for m, e := range s.session.Listen(ctx) {
			if err = e; e == nil {
				heard <- dataOf(m)
			}
		}
		left <- err
	}()
	first := "" // what is sent before the server has the connection is lost
	for first == "" {
		s.does(t, "tell", "0")
		select {
		case first = <-heard:
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.does(t, "tell", "one")
	for got := receive(t, heard, "the first"); got != "one"; got = receive(t, heard, "the first") {
		require.Equal(t, "0", got)
	}
	s.does(t, "tell", "") // closes the stream
	s.does(t, "tell", "two")
	require.Equal(t, "two", receive(t, heard, "what was said after the stream was closed"))
	s.cutNow("GET ")
	s.does(t, "tell", "three")
	require.Equal(t, "three", receive(t, heard, "what was said after the connection broke"))
	leave()
	require.NoError(t, receive(t, left, "the end"))
	require.Empty(t, heard, "each comes once")
}

func (s *script) refuses(t *testing.T) {
	_, _, err := s.call(t, "fails", "", quietly)
	var refusal *client.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, -32050, refusal.Code)
	s.does(t, "quick", "")
}

// goesOn cuts a call while its tool waits. The tool sends more while there is no connection.
func (s *script) goesOn(t *testing.T) {
	s.cutAfter(`"slow"`, `"one"`)
	told, text, err := s.call(t, "slow", "", func(text string) {
		if text == "one" {
			s.does(t, "go", "")
		}
	})
	require.NoError(t, err)
	require.Equal(t, "one two", told)
	require.Equal(t, "done", text)
	cut, _ := s.isCut()
	require.True(t, cut)
	require.Equal(t, "1", s.does(t, "runs", "slow"), "sent once")
}

// cutAnywhere cuts the response at many bytes.
func (s *script) cutAnywhere(t *testing.T) {
	const step = 7
	before := s.does(t, "runs", "quick")
	for n := 0; ; n += step {
		s.cutAt(`"quick"`, n)
		told, text, err := s.call(t, "quick", "", quietly)
		cut, seen := s.isCut()
		where := fmt.Sprintf("byte %d, after %q: %v", n, seen[max(0, len(seen)-40):], err)
		if cut && !hasID(seen) && !isAnswered(seen) {
			require.ErrorIs(t, err, client.ErrMayHaveRun, where)
			continue
		}
		require.NoError(t, err, where)
		require.Equal(t, "done", text, where)
		require.Equal(t, "one two", told, where)
		if !cut {
			require.Greater(t, n, 500, "the answer was cut somewhere")
			var first, last int
			_, err := fmt.Sscan(before+" "+s.does(t, "runs", "quick"), &first, &last)
			require.NoError(t, err)
			require.Equal(t, n/step+1, last-first, "each call is sent once")
			return
		}
	}
}

// mayHaveRun cuts a call that cannot be resumed.
func (s *script) mayHaveRun(t *testing.T) {
	s.cutAfter(`"slow"`, `"one"`)
	told, _, err := s.call(t, "slow", "", quietly)
	require.ErrorIs(t, err, client.ErrMayHaveRun)
	require.Equal(t, "one", told)
	require.Equal(t, "1", s.does(t, "runs", "slow"), "it is not sent again")
	s.does(t, "go", "")
}
