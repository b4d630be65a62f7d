package sse

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// The promise of about twice the limit rests on this: the buffer's capacity,
// which append alone would let grow beyond the limit, does not.
func TestBufferNeverExceedsLimit(t *testing.T) {
	const max = 10_000
	streams := map[string]string{
		"one line":          "data: " + strings.Repeat("x", max-6) + "\n\n",
		"many lines":        strings.Repeat("data: 0123456789\n", 900) + "\n\n",
		"a long id, data":   "id: " + strings.Repeat("i", max/2) + "\ndata: " + strings.Repeat("x", max/2-6) + "\n\n",
		"a line over it":    "data: " + strings.Repeat("x", 2*max) + "\n\n",
		"a comment over it": ": " + strings.Repeat("x", 2*max) + "\n\n",
	}
	for name, stream := range streams {
		t.Run(name, func(t *testing.T) {
			for _, src := range []io.Reader{
				strings.NewReader(stream),
				iotest.OneByteReader(strings.NewReader(stream)),
			} {
				r := NewReader(src, max)
				for {
					ev, err := r.Next()
					require.LessOrEqual(t, cap(r.block.buf), max)
					require.Equal(t, len(ev.Data), cap(ev.Data), "what the caller keeps is no larger than the event")
					if err != nil {
						break
					}
				}
			}
		})
	}
}
