package sse

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func splitAll(t *testing.T, stream []byte, size int) (all []string, between bool) {
	t.Helper()
	var s Splitter
	for len(stream) > 0 {
		n := min(size, len(stream))
		piece := bytes.Clone(stream[:n]) // the caller uses its memory again
		require.NoError(t, s.Write(piece, func(data []byte) { all = append(all, string(data)) }))
		clear(piece)
		stream = stream[n:]
	}
	return all, s.Between()
}

func TestSplitterFindsEventsHoweverTheyAreWritten(t *testing.T) {
	stream := []byte("event: message\ndata: one\n\n: comment\n\nid: 7\r\ndata: two\r\ndata: lines\r\n\r\nretry: 5\n\ndata:three\r\rdata\n\n\n\ndata: un")
	for size := 1; size <= len(stream); size++ {
		all, between := splitAll(t, stream, size)
		require.Equal(t, []string{"one", "two\nlines", "three", ""}, all, "in pieces of %d", size)
		require.False(t, between, "the last event has no end yet")
	}
	all, between := splitAll(t, []byte("data: x\n\n"), 3)
	require.Equal(t, []string{"x"}, all)
	require.True(t, between)
}

func TestSplitterIsBounded(t *testing.T) {
	s := Splitter{Max: 20}
	none := func([]byte) { t.Error("an event") }
	require.NoError(t, s.Write([]byte("data: 0123456789"), none))
	require.ErrorIs(t, s.Write([]byte("012345"), none), ErrTooLarge)
	s = Splitter{Max: 10}
	require.ErrorIs(t, s.Write([]byte("data: 0123456789\n\n"), none), ErrTooLarge)
}

// FuzzSplitter compares with the Reader.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("data: a\n\ndata: b\r\n\r\n:\r\rdata\rdata\r\r"), uint8(1))
	f.Add([]byte("data\r\n\r\ndata: x\n\r\n"), uint8(2))
	f.Add([]byte("\n\n\r\r\r\n\r\ndata: x\n\n"), uint8(3))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		if bytes.HasPrefix(stream, byteOrderMark[:1]) {
			return
		}
		var want []string
		r := NewReader(bytes.NewReader(stream), len(stream)+1)
		for {
			ev, err := r.Next()
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			require.NoError(t, err)
			if ev.HasData {
				want = append(want, string(ev.Data))
			}
		}
		all, _ := splitAll(t, stream, int(size)+1)
		require.Equal(t, want, all)
	})
}
