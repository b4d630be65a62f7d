package faithful

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"slices"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	maxDepth   = 256     // of a message: rejoin refuses deeper ones
	maxIDBytes = 1 << 10 // of an id, as in rejoin, and of a progress token
)

// alias is a value of the client, and the string that replaces it, both as JSON.
type alias struct{ original, replacement []byte }

// newAlias returns an alias with an unpredictable replacement.
func newAlias(original []byte) alias {
	return alias{bytes.Clone(original), jsonrpc.AppendString(nil, "rejoin-"+rand.Text())}
}

// Handler wraps next, as the package documentation says. It reads the whole body before it calls next.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readAll(r)
		m, _ := jsonrpc.Parse(body, maxDepth) // next refuses invalid messages
		out := &response{w: w, id: m.ID}
		if err != nil {
			out.refuse(http.StatusBadRequest, "the body could not be read")
			return
		}
		body, out.aliases = substitute(body, &m)
		r = r.WithContext(r.Context()) // a copy
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		var writer http.ResponseWriter = out
		if f, ok := w.(http.Flusher); ok {
			writer = flushingResponse{out, f}
		}
		next.ServeHTTP(writer, r)
		out.finish()
	})
}

func readAll(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	var b bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength < 64<<10 {
		b.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := b.ReadFrom(r.Body)
	return b.Bytes(), err
}

// substitute replaces values that would come back changed.
func substitute(body []byte, m *jsonrpc.Message) ([]byte, []alias) {
	if m.Kind != jsonrpc.Request || m.Raw == nil {
		return body, nil
	}
	var aliases []alias
	for _, path := range [...][]string{{"id"}, {"params", "_meta", "progressToken"}} {
		from, to, ok := jsonrpc.Find(body, path...)
		if !ok {
			continue
		}
		v, replacement := body[from:to], []byte("null")
		switch {
		case !jsonrpc.IsID(v) || len(v) > maxIDBytes: // an invalid token: rejoin has refused invalid ids
		case jsonrpc.Survives(v):
			continue
		default:
			a := newAlias(v)
			aliases, replacement = append(aliases, a), a.replacement
		}
		body = slices.Concat(body[:from], replacement, body[to:])
	}
	return body, aliases
}
