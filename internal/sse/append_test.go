package sse_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

func TestAppendEvent(t *testing.T) {
	tests := []struct {
		name, id, data, want string
	}{
		{"one line", "s.1", `{"a":1}`, "event: message\nid: s.1\ndata: {\"a\":1}\n\n"},
		{"no id: no id line, which would clear the cursor", "", "x", "event: message\ndata: x\n\n"},
		{"no data: still a data line", "s.1", "", "event: message\nid: s.1\ndata: \n\n"},
		{"line feed", "s.1", "a\nb", "event: message\nid: s.1\ndata: a\ndata: b\n\n"},
		{"carriage return", "s.1", "a\rb", "event: message\nid: s.1\ndata: a\ndata: b\n\n"},
		{"both are one break", "s.1", "a\r\nb", "event: message\nid: s.1\ndata: a\ndata: b\n\n"},
		{"the other way round are two", "s.1", "a\n\rb", "event: message\nid: s.1\ndata: a\ndata: \ndata: b\n\n"},
		{"a blank line does not end the event", "s.1", "a\n\nb", "event: message\nid: s.1\ndata: a\ndata: \ndata: b\n\n"},
		{"break at the start", "s.1", "\na", "event: message\nid: s.1\ndata: \ndata: a\n\n"},
		{"break at the end", "s.1", "a\r\n", "event: message\nid: s.1\ndata: a\ndata: \n\n"},
		{"only a break", "s.1", "\r", "event: message\nid: s.1\ndata: \ndata: \n\n"},
		{"a field in the data stays data", "s.1", "a\nid: evil\n\nevent: evil", "event: message\nid: s.1\ndata: a\ndata: id: evil\ndata: \ndata: event: evil\n\n"},
		{"space at the start is kept: the parser drops one", "s.1", " a", "event: message\nid: s.1\ndata:  a\n\n"},
		{"bytes that are not UTF-8", "s.1", "\xff\x00", "event: message\nid: s.1\ndata: \xff\x00\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, string(sse.AppendEvent(nil, []byte(tt.id), []byte(tt.data))))
			require.Equal(t, "before"+tt.want, string(sse.AppendEvent([]byte("before"), []byte(tt.id), []byte(tt.data))), "what dst holds stays")
		})
	}
	require.Equal(t, "event: message\ndata: \n\n", string(sse.AppendEvent(nil, nil, nil)), "nil is as empty")
}

func TestAppendPrimer(t *testing.T) {
	require.Equal(t, "id: s.0\nretry: 1500\ndata: \n\n", string(sse.AppendPrimer(nil, []byte("s.0"), 1500*time.Millisecond)))
	require.Equal(t, "retry: 1\ndata: \n\n", string(sse.AppendPrimer(nil, nil, 0)), "no id: no id line")
	require.Equal(t, "before"+"id: s.0\nretry: 1\ndata: \n\n", string(sse.AppendPrimer([]byte("before"), []byte("s.0"), -1)))
}

func TestAppendRetry(t *testing.T) {
	tests := []struct {
		name  string
		retry time.Duration
		want  string
	}{
		{"whole", 3 * time.Second, "3000"},
		{"rounded up", 2*time.Millisecond + 1, "3"},
		{"under one, which rounded down would be a busy loop", 1, "1"},
		{"zero", 0, "1"},
		{"negative", -time.Hour, "1"},
		{"the smallest", math.MinInt64, "1"},
		{"the largest: rounding does not overflow", math.MaxInt64, "9223372036855"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, "retry: "+tt.want+"\n\n", string(sse.AppendRetry(nil, tt.retry)))
		})
	}
}

func TestAppendComment(t *testing.T) {
	require.Equal(t, "before: \n\n", string(sse.AppendComment([]byte("before"))))
}

// requireRefused wants a panic that names the byte, and nothing written.
func requireRefused(t *testing.T, id string, message string) {
	t.Helper()
	dst := make([]byte, 0, 64)
	require.PanicsWithValue(t, message, func() { sse.AppendEvent(dst, []byte(id), []byte("x")) })
	require.PanicsWithValue(t, message, func() { sse.AppendPrimer(dst, []byte(id), time.Second) })
	require.Equal(t, make([]byte, 64), dst[:64], "dst is untouched: a caller that recovers sends no half event")
}

func TestIDWithLineFeedInjectsField(t *testing.T) {
	requireRefused(t, "s.1\ndata: evil", `sse: control byte 0x0a in event id "s.1\ndata: evil"`)
}

func TestIDWithCarriageReturnInjectsField(t *testing.T) {
	requireRefused(t, "s.1\rdata: evil", `sse: control byte 0x0d in event id "s.1\rdata: evil"`)
}

func TestIDWithBlankLineSplitsEvent(t *testing.T) {
	requireRefused(t, "s.1\r\n\r\ndata: evil", `sse: control byte 0x0d in event id "s.1\r\n\r\ndata: evil"`)
}

func TestIDWithLineBreakAtTheEnd(t *testing.T) {
	requireRefused(t, "s.1\n", `sse: control byte 0x0a in event id "s.1\n"`)
}

func TestIDWithNULIsIgnoredByClients(t *testing.T) {
	requireRefused(t, "s.1\x00", `sse: control byte 0x00 in event id "s.1\x00"`)
}

func TestIDWithEscapeReachesTerminals(t *testing.T) {
	requireRefused(t, "\x1b[2J", `sse: control byte 0x1b in event id "\x1b[2J"`)
}

func TestIDWithDeleteReachesTerminals(t *testing.T) {
	requireRefused(t, "s.1\x7f", `sse: control byte 0x7f in event id "s.1\x7f"`)
}

func TestIDWithAnyByte(t *testing.T) {
	for c := range 256 {
		id := []byte{'a', byte(c), 'b'}
		if c < 0x20 || c == 0x7f {
			require.Panics(t, func() { sse.AppendEvent(nil, id, nil) }, "0x%02x is a control byte", c)
		} else {
			require.NotPanics(t, func() { sse.AppendEvent(nil, id, nil) }, "0x%02x is none", c)
		}
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 4096)
	line := []byte(`{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("x", 100) + `"}}`)
	lines := []byte(strings.Repeat("a\r\nb\rc\n", 20))
	var total int
	require.Zero(t, testing.AllocsPerRun(100, func() {
		id := append(make([]byte, 0, 64), "0123456789012345678901.17"...) // on the stack, unless it escapes
		out := sse.AppendPrimer(dst[:0], id, 3*time.Second)
		out = sse.AppendEvent(out, id, line)
		out = sse.AppendEvent(out, id, lines)
		out = sse.AppendComment(out)
		out = sse.AppendRetry(out, time.Second)
		total += len(out)
	}))
	require.Positive(t, total)
}
