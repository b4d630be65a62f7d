package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

var (
	benchID       = []byte("AAAAAAAAAAAAAAAAAAAAAA.17")
	benchResponse = []byte(`{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"It is 21 degrees in Paris, and sunny."}]}}`)
)

// BenchmarkAppendEvent is one message as it goes to the wire. indented has line breaks, each of which begins a data line.
func BenchmarkAppendEvent(b *testing.B) {
	for name, data := range map[string][]byte{
		"response": benchResponse,
		"large":    []byte(`{"text":"` + strings.Repeat("x", 64<<10) + `"}`),
		"indented": []byte("{\n" + strings.Repeat("  \"some key\": \"some value\",\n", 100) + "  \"last\": 0\n}"),
	} {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				dst = sse.AppendEvent(dst[:0], benchID, data)
			}
		})
	}
}

// BenchmarkAppendPrimer is what a poll costs that brings nothing.
func BenchmarkAppendPrimer(b *testing.B) {
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = sse.AppendPrimer(dst[:0], benchID, time.Second)
	}
}

// BenchmarkReader is one event of a stream, as a client reads it. The sources return what is asked for, or a few bytes at a time.
func BenchmarkReader(b *testing.B) {
	const events = 1000
	var stream []byte
	for range events {
		stream = sse.AppendEvent(stream, benchID, benchResponse)
	}
	for name, piece := range map[string]int{"whole": len(stream), "pieces": 100} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(stream) / events))
			b.ReportAllocs()
			var r *sse.Reader
			for i := 0; b.Loop(); i++ {
				if i%events == 0 {
					r = sse.NewReader(&pieces{src: bytes.NewReader(stream), size: piece}, 1<<20)
				}
				if ev, err := r.Next(); err != nil || len(ev.Data) != len(benchResponse) {
					b.Fatal(ev, err)
				}
			}
			if r == nil {
				b.Fatal("nothing was read")
			}
		})
	}
}

// BenchmarkReaderLarge is one event of a megabyte.
func BenchmarkReaderLarge(b *testing.B) {
	stream := sse.AppendEvent(nil, benchID, bytes.Repeat([]byte("x"), 1<<20))
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		r := sse.NewReader(bytes.NewReader(stream), 2<<20)
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}

// pieces returns no more than size bytes at a time.
type pieces struct {
	src  io.Reader
	size int
}

func (p *pieces) Read(b []byte) (int, error) { return p.src.Read(b[:min(len(b), p.size)]) }
