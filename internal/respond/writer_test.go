package respond

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

type plainWriter struct{ http.ResponseWriter }

type unwrapWriter struct{ http.ResponseWriter }

func (w unwrapWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// lazyFlusher flushes only what it wraps itself, as gin's writer does: nothing, behind a writer that can only be unwrapped.
type lazyFlusher struct{ http.ResponseWriter }

func (w lazyFlusher) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w lazyFlusher) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

type countingWriter struct {
	http.ResponseWriter
	flushes int
}

func (w *countingWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *countingWriter) Flush()                      { w.flushes++ }

// errorFlusher offers FlushError alone, which gin's writer does not look for.
type errorFlusher struct{ http.ResponseWriter }

func (w errorFlusher) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w errorFlusher) FlushError() error           { return http.NewResponseController(w.ResponseWriter).Flush() }

func TestWriterFlushesThroughTheChain(t *testing.T) {
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"bare":                         func(w http.ResponseWriter) http.ResponseWriter { return w },
		"only Unwrap":                  func(w http.ResponseWriter) http.ResponseWriter { return unwrapWriter{w} },
		"only Flush":                   func(w http.ResponseWriter) http.ResponseWriter { return lazyFlusher{w} },
		"Flush behind only Unwrap":     func(w http.ResponseWriter) http.ResponseWriter { return lazyFlusher{unwrapWriter{w}} },
		"Flush behind only FlushError": func(w http.ResponseWriter) http.ResponseWriter { return lazyFlusher{errorFlusher{w}} },
		"Unwrap, Flush, Unwrap twice": func(w http.ResponseWriter) http.ResponseWriter {
			return unwrapWriter{lazyFlusher{unwrapWriter{unwrapWriter{w}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			end := &countingWriter{}
			w := New(wrap(end), 0)
			require.True(t, w.CanFlush())
			require.NoError(t, w.Send([]byte("x")))
			require.Equal(t, 1, end.flushes, "what was written must leave, once")
		})
	}
	w := New(plainWriter{&countingWriter{}}, 0)
	require.False(t, w.CanFlush(), "a writer that hides Flush and Unwrap cannot stream")
	w = New(lazyFlusher{plainWriter{&countingWriter{}}}, 0)
	require.False(t, w.CanFlush(), "nor can one that claims to flush, around it")
	require.NoError(t, w.Send([]byte("x")), "what is written leaves with the end of the handler")
}
