package sse_test

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("s.1"), []byte(`{"jsonrpc":"2.0"}`))
	f.Add([]byte(""), []byte(""))
	f.Add([]byte(" \xff: "), []byte(" a\r\n\r\nb\rid: evil\n\n"))
	f.Add([]byte("\xef\xbb\xbf"), []byte("\n\r\r\n"))
	f.Fuzz(func(t *testing.T, id, data []byte) {
		id = bytes.Clone(id)
		for i, c := range id {
			if c < 0x20 || c == 0x7f {
				id[i] = '_' // refused, see the tests of AppendEvent
			}
		}
		want := sse.Event{
			ID: string(id), HasID: len(id) > 0, Name: "message",
			Data: append([]byte{}, bytes.Join(splitLines(data), []byte("\n"))...), HasData: true,
			Retry: -1,
		}
		stream := sse.AppendEvent(nil, id, data)
		stream = sse.AppendEvent(stream, id, data)
		require.Equal(t, outcome{events: []sse.Event{want, want}, err: io.EOF}, readAll(bytes.NewReader(stream), 1<<20))

		want = sse.Event{ID: string(id), HasID: len(id) > 0, Data: []byte{}, HasData: true, Retry: time.Second}
		stream = sse.AppendPrimer(nil, id, time.Second)
		require.Equal(t, outcome{events: []sse.Event{want}, err: io.EOF}, readAll(bytes.NewReader(stream), 1<<20))
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("\xef\xbb\xbfid: 7\r\nevent: e\rretry: 5\ndata: a\r\n\ndata: b\r\r:c\n\n"), uint16(64), uint16(9))
	f.Add([]byte("data\ndata:\ndata: \n\nid\nid: \x00\nretry: 99999999999999999999\n\nfoo\n"), uint16(30), uint16(0))
	f.Add([]byte("data: 0123456789\r\ndata: 0123456789\r\n\r\n: 0123456789abcdef"), uint16(25), uint16(17))
	f.Fuzz(func(t *testing.T, stream []byte, limit, cut uint16) {
		max := int(limit) + 1
		want := reference(stream, max)
		require.Equal(t, want, readAll(bytes.NewReader(stream), max), "whole")
		require.Equal(t, want, readAll(iotest.OneByteReader(bytes.NewReader(stream)), max), "byte by byte")
		require.Equal(t, want, readAll(iotest.DataErrReader(bytes.NewReader(stream)), max), "error with the last bytes")
		require.Equal(t, want, readAll(splitAt(string(stream), min(int(cut), len(stream))), max), "cut at %d", cut)
	})
}
