package redisstore

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

func TestChunks(t *testing.T) {
	chunk, err := encode(nil)
	require.NoError(t, err)
	require.Empty(t, chunk, "no events are no chunk")
	_, err = encode(make([][]byte, maxEvents+1))
	require.ErrorContains(t, err, "at most 128")
	events := [][]byte{[]byte("one"), {}, bytes.Repeat([]byte("x"), 70_000)}
	chunk, err = encode(events)
	require.NoError(t, err)
	require.Len(t, chunk, 2+3*4+3+70_000)
	buf := make([]eventstore.Event, 4)
	n, err := decode([]byte(chunk[2:]), 7, buf)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	for i, data := range events {
		require.Equal(t, eventstore.Event{Seq: 7 + uint64(i), Data: data}, buf[i])
		require.Equal(t, len(data), cap(buf[i].Data), "a reader that adds to it must not write into the next event")
	}
	_, err = decode([]byte(chunk[2:]), 7, buf[:2])
	require.Error(t, err, "more events than were asked for")
	for cut := 3; cut < 2+4+3+4; cut++ {
		if n, err := decode([]byte(chunk[2:cut]), 1, buf); err == nil {
			require.Equal(t, 1, n)
			require.Equal(t, 2+4+3, cut, "half an event was taken")
		}
	}
}

func FuzzChunk(f *testing.F) {
	f.Add([]byte("\x03\x00\x00\x00one\x00\x00\x00\x00"), uint64(1))
	f.Add([]byte("\xff\xff\xff\xff"), uint64(9))
	f.Fuzz(func(t *testing.T, piece []byte, seq uint64) {
		buf := make([]eventstore.Event, maxEvents)
		n, err := decode(piece, seq, buf)
		require.LessOrEqual(t, n, len(buf))
		if err != nil || n == 0 {
			return
		}
		events := make([][]byte, n)
		for i := range events {
			require.Equal(t, seq+uint64(i), buf[i].Seq)
			events[i] = buf[i].Data
		}
		chunk, err := encode(events)
		require.NoError(t, err)
		require.Equal(t, string(piece), chunk[2:])
	})
}
