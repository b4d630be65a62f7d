package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

func TestProgressOnATerminalIsOneLine(t *testing.T) {
	var w bytes.Buffer
	c := &console{w: &w, width: func() int { return 20 }}
	c.progress("1/3")
	c.progress("2/3 a message that is too long for the terminal")
	c.line("something else")
	c.progress("3/3")
	c.clear()
	c.clear()
	require.Equal(t, "\r\x1b[K1/3\r\x1b[K2/3 a message that \r\x1b[Ksomething else\n\r\x1b[K3/3\r\x1b[K", w.String())
}

func TestWhyATaskHasFailedIsNoProgress(t *testing.T) {
	var w bytes.Buffer
	p := &printer{console: &console{w: &w, width: func() int { return 0 }}}
	for _, status := range []string{"working", "input_required", "completed", "failed", "cancelled"} {
		p.message(client.Message{Method: "notifications/tasks", Params: []byte(`{"status":"` + status + `","statusMessage":"x\u001b[2J"}`)})
	}
	require.Equal(t, strings.Repeat("progress x [2J\n", 3)+"rejoin: the task has ended (failed): x [2J\nrejoin: the task has ended (cancelled): x [2J\n", w.String())
}

func TestServersCannotSpeakToTheTerminal(t *testing.T) {
	var w bytes.Buffer
	c := &console{w: &w, width: func() int { return 0 }}
	c.line("a\x1b]0;title\x07b\r\nc\u202ed\u009b2J")
	require.Equal(t, "a ]0;title b  c d 2J\n", w.String())
	var out bytes.Buffer
	p := &printer{console: c, stdout: &out}
	p.result([]byte(`{"content":[{"type":"text","text":"\u001b[2Jx\n\ty\n"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}`))
	require.Equal(t, "\x1b[2Jx\n\ty\n[image, image/png, 4 bytes of base64; --json has it]\n", out.String(), "a file gets it as it is")
	out.Reset()
	p.terminal = true
	p.result([]byte(`{"content":[{"type":"text","text":"\u001b[2Jx\ny"}]}`))
	require.Equal(t, " [2Jx\ny\n", out.String())
}

// What --json writes to a terminal says the same as what it writes to a file, and nothing in it moves the cursor or turns the text around.
func TestServersCannotSpeakToTheTerminalInJSON(t *testing.T) {
	hostile := "a\u0085b\u009b2Jc\u007fd\u202ee\u2066f\u2028g\u061ch ä 😀"
	raw := []byte(`{"text":"` + hostile + `","\u009b":1,"tab":"\t"}`)
	write := func(terminal bool, say func(p *printer)) string {
		var out bytes.Buffer
		p := &printer{console: &console{w: &bytes.Buffer{}, width: func() int { return 0 }}, stdout: &out, terminal: terminal, json: true}
		say(p)
		return out.String()
	}
	for name, say := range map[string]func(p *printer){
		"a result":       func(p *printer) { p.result(raw) },
		"a message":      func(p *printer) { p.message(client.Message{Method: hostile, Params: raw}) },
		"an error":       func(p *printer) { p.failed(&client.Error{Code: 1, Message: hostile, Data: raw}) },
		"a failure":      func(p *printer) { p.failure(errors.New(hostile), hostile) },
		"a tool":         func(p *printer) { p.record(record{Type: "tool", Tool: raw}) },
		"what goes on":   func(p *printer) { p.left(hostile) },
		"nothing at all": func(p *printer) { p.record(record{Type: "x"}) },
	} {
		file, terminal := write(false, say), write(true, say)
		require.JSONEq(t, file, terminal, name)
		line, ok := strings.CutSuffix(terminal, "\n")
		require.True(t, ok, name)
		require.NotRegexp(t, `[\p{Cc}\p{Cf}\x{2028}\x{2029}]`, line, name)
	}
}

func TestValuesOfATraceAreWords(t *testing.T) {
	for in, want := range map[string]string{"2": "2", `"a"`: `"\"a\""`, "a b": `"a b"`, "a\nb": `"a\nb"`, "ä": "ä"} {
		require.Equal(t, want, value(in))
	}
}

func TestTokensNameTheirServer(t *testing.T) {
	url, token, err := splitToken(joinToken("https://example.com/mcp?x=1#part", "abc") + "\n")
	require.NoError(t, err)
	require.Equal(t, "https://example.com/mcp?x=1", url)
	require.Equal(t, "abc", token)
	require.Empty(t, joinToken("https://example.com/mcp", ""))
}

func TestATokenFileIsReplacedWholeAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f := tokenFile(filepath.Join(dir, "token"))
	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, []byte("other"), 0o600))
	require.NoError(t, os.Symlink(other, f.part()), "a kill, or somebody who wants our token, has left this")
	require.NoError(t, f.unused())
	require.NoError(t, f.write("one"))
	require.NoError(t, f.write("two"))
	raw, err := os.ReadFile(string(f))
	require.NoError(t, err)
	require.Equal(t, "two\n", string(raw))
	raw, err = os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "other", string(raw), "links are not followed")
	require.Error(t, f.unused())
	require.NoError(t, os.WriteFile(f.part(), nil, 0o600))
	require.NoError(t, f.remove())
	require.NoError(t, f.remove())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Error(t, tokenFile(filepath.Join(dir, "none", "token")).write("one"))
}

func TestWhatAShellWouldReadIsQuoted(t *testing.T) {
	require.Equal(t, "http://127.0.0.1:8080/mcp#abc_-", quoted("http://127.0.0.1:8080/mcp#abc_-"))
	require.Equal(t, "'https://example.com/?a=1&b='\\''#x'", quoted("https://example.com/?a=1&b='#x"))
}
