package hop

import (
	"io"
	"net/http"

	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// ofRejoin are the fields of a head that a server of rejoin writes itself. Others are those of the owner's middleware, and this process has
// middleware of its own: browsers refuse a response that has such a field twice.
var ofRejoin = [...]string{
	respond.SessionHeader, "Content-Type", "Cache-Control", "X-Accel-Buffering", "Allow", "Accept-Encoding", "Retry-After",
}

// Head puts the head of the answer into that of the response, but for the length.
func (a *Answer) Head(h http.Header) {
	for _, name := range ofRejoin {
		if values := a.res.Header[name]; len(values) > 0 {
			h[name] = values
		}
	}
}

// IsStream reports whether the answer is a stream of events that may last. A short one with a length comes at once.
func (a *Answer) IsStream() bool {
	return a.Status == http.StatusOK && respond.IsStream(a.res.Header) && (a.res.ContentLength < 0 || a.res.ContentLength > pieceSize)
}

// maxClaimed limits the memory that an answer gets for its Content-Length alone.
const maxClaimed = 1 << 20

// Whole reads the whole body.
func (a *Answer) Whole() ([]byte, error) {
	a.waits.Store(a.p.now())
	defer a.waits.Store(0)
	var body []byte
	var err error
	if n := a.res.ContentLength; n >= 0 && n <= maxClaimed {
		body = make([]byte, n+1)
		if _, err = io.ReadFull(a.res.Body, body[:n]); err == nil {
			_, _ = a.res.Body.Read(body[n:]) // to the end, so that the connection can be used again
		}
		body = body[:n]
	} else if body, err = io.ReadAll(a.res.Body); err == nil && n >= 0 && int64(len(body)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, a.cause(err)
	}
	return body, nil
}
