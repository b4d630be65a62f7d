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
	maxDepth   = 256     // of a message: rejoin lets no deeper one through
	maxIDBytes = 1 << 10 // of an id, as rejoin has it, and of a progress token
)

// alias is a value of the client and the string that stands in its place, both as JSON.
type alias struct{ own, other []byte }

// newAlias makes one that nobody can know beforehand.
func newAlias(own []byte) alias {
	return alias{bytes.Clone(own), jsonrpc.AppendString(nil, "rejoin-"+rand.Text())}
}

// Handler is next, made faithful. It reads the whole body first.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readAll(r)
		m, _ := jsonrpc.Parse(body, maxDepth) // of a body that is none of its messages, next says what is wrong
		out := &response{w: w, id: m.ID}
		if err != nil {
			out.refuse(http.StatusBadRequest, "the body could not be read")
			return
		}
		body, out.aliases = disguise(body, &m)
		r = r.WithContext(r.Context()) // a copy
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		var seen http.ResponseWriter = out
		if f, ok := w.(http.Flusher); ok {
			seen = flushing{out, f}
		}
		next.ServeHTTP(seen, r)
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

// disguise puts something in the place of what would not come back as it is.
func disguise(body []byte, m *jsonrpc.Message) ([]byte, []alias) {
	if m.Kind != jsonrpc.Request || m.Raw == nil {
		return body, nil
	}
	var aliases []alias
	for _, path := range [...][]string{{"id"}, {"params", "_meta", "progressToken"}} {
		from, to, ok := jsonrpc.Find(body, path...)
		if !ok {
			continue
		}
		v, other := body[from:to], []byte("null")
		switch {
		case !jsonrpc.IsID(v) || len(v) > maxIDBytes: // a token that is none: longer ids were refused before
		case jsonrpc.Survives(v):
			continue
		default:
			a := newAlias(v)
			aliases, other = append(aliases, a), a.other
		}
		body = slices.Concat(body[:from], other, body[to:])
	}
	return body, aliases
}
