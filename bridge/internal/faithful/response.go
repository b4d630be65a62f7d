package faithful

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// maxRefusal bounds the text of a refusal that the client gets.
const maxRefusal = 4 << 10

// response is the ResponseWriter of the SDK's handler. SDKs also write from the goroutines of tools.
type response struct {
	w       http.ResponseWriter
	id      []byte // of the request; nil: it has none
	aliases []alias

	mu          sync.Mutex
	headSent    bool
	refusal     int // the status of a refusal in text/plain; 0 for other responses
	refusalText []byte
	pending     []byte // the last bytes written, if they may be the beginning of a replacement
}

func (r *response) Header() http.Header { return r.w.Header() }

func (r *response) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHead(status)
}

// writeHead sends the head, unless it begins a refusal in text/plain. The caller holds r.mu.
func (r *response) writeHead(status int) {
	if r.headSent || r.refusal != 0 {
		return
	}
	kind, _, _ := mime.ParseMediaType(r.w.Header().Get("Content-Type")) // "" if there is none
	if status >= http.StatusBadRequest && kind == "text/plain" {
		r.refusal = status
		return
	}
	r.headSent = status >= http.StatusOK || status == http.StatusSwitchingProtocols
	if len(r.aliases) > 0 {
		r.w.Header().Del("Content-Length") // the client's values have other lengths
	}
	r.w.WriteHeader(status)
}

func (r *response) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHead(http.StatusOK)
	if r.refusal != 0 {
		r.refusalText = append(r.refusalText, p[:min(len(p), maxRefusal-len(r.refusalText))]...)
		return len(p), nil
	}
	if len(r.aliases) == 0 {
		return r.w.Write(p)
	}
	if data := r.restoreAliases(p); len(data) > 0 {
		if _, err := r.w.Write(data); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// restoreAliases puts the client's values back. It keeps bytes that may be the beginning of a replacement until the rest comes.
func (r *response) restoreAliases(p []byte) []byte {
	data := slices.Concat(r.pending, p)
	keep := 0
	for _, a := range r.aliases {
		data = bytes.ReplaceAll(data, a.replacement, a.original)
	}
	for _, a := range r.aliases {
		for n := min(len(a.replacement)-1, len(data)); n > keep; n-- {
			if bytes.HasSuffix(data, a.replacement[:n]) {
				keep = n
			}
		}
	}
	r.pending = bytes.Clone(data[len(data)-keep:])
	return data[:len(data)-keep]
}

// finish is called when the handler has returned.
func (r *response) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.refusal != 0:
		r.refuse(r.refusal, strings.TrimSpace(string(r.refusalText)))
	case len(r.pending) > 0:
		_, _ = r.w.Write(r.pending) // the client may be gone
		r.pending = nil
	}
}

// refuse answers with a JSON-RPC error.
func (r *response) refuse(status int, text string) {
	code := -32600 // invalid request
	if status >= http.StatusInternalServerError {
		code = -32603 // internal error
	}
	if text == "" {
		text = http.StatusText(status)
	}
	h := r.w.Header()
	h.Del("Content-Length")
	h.Del("X-Content-Type-Options")
	h.Set("Content-Type", "application/json")
	r.w.WriteHeader(status)
	_, _ = r.w.Write(jsonrpc.AppendError(nil, r.id, code, text, nil)) // the client may be gone
	r.headSent, r.refusal = true, 0
}

// flushingResponse is a response whose writer can flush: SDKs check for the method.
type flushingResponse struct {
	*response

	flusher http.Flusher
}

func (f flushingResponse) Flush() { _ = f.FlushError() }

func (f flushingResponse) FlushError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusal != 0 {
		return nil
	}
	if e, ok := f.flusher.(interface{ FlushError() error }); ok {
		f.headSent = true
		return e.FlushError()
	}
	f.headSent = true
	f.flusher.Flush()
	return nil
}
