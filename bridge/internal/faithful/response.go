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

// maxRefusal is how much of a refusal's text is passed on.
const maxRefusal = 4 << 10

// response is the ResponseWriter that the SDK's handler gets. SDKs write from the goroutines of tools, too.
type response struct {
	w       http.ResponseWriter
	id      []byte // of the request; nil: it has none
	aliases []alias

	mu      sync.Mutex
	headed  bool
	refused int // the status of a refusal in text/plain; 0: it is none
	text    []byte
	held    []byte // the end of what was written, where it may be the beginning of an alias
}

func (o *response) Header() http.Header { return o.w.Header() }

func (o *response) WriteHeader(status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.head(status)
}

// head notes a head, and sends it unless it is that of a refusal in text/plain. With the lock.
func (o *response) head(status int) {
	if o.headed || o.refused != 0 {
		return
	}
	kind, _, _ := mime.ParseMediaType(o.w.Header().Get("Content-Type")) // "" is none
	if status >= http.StatusBadRequest && kind == "text/plain" {
		o.refused = status
		return
	}
	o.headed = status >= http.StatusOK || status == http.StatusSwitchingProtocols
	if len(o.aliases) > 0 {
		o.w.Header().Del("Content-Length") // what is put back has another one
	}
	o.w.WriteHeader(status)
}

func (o *response) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.head(http.StatusOK)
	if o.refused != 0 {
		o.text = append(o.text, p[:min(len(p), maxRefusal-len(o.text))]...)
		return len(p), nil
	}
	if len(o.aliases) == 0 {
		return o.w.Write(p)
	}
	if data := o.restore(p); len(data) > 0 {
		if _, err := o.w.Write(data); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// restore puts the client's own values back, and keeps what may be a part of an alias until the rest of it comes.
func (o *response) restore(p []byte) []byte {
	data := slices.Concat(o.held, p)
	keep := 0
	for _, a := range o.aliases {
		data = bytes.ReplaceAll(data, a.other, a.own)
	}
	for _, a := range o.aliases {
		for n := min(len(a.other)-1, len(data)); n > keep; n-- {
			if bytes.HasSuffix(data, a.other[:n]) {
				keep = n
			}
		}
	}
	o.held = bytes.Clone(data[len(data)-keep:])
	return data[:len(data)-keep]
}

// finish is called when the handler has returned.
func (o *response) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.refused != 0:
		o.refuse(o.refused, strings.TrimSpace(string(o.text)))
	case len(o.held) > 0:
		_, _ = o.w.Write(o.held) // the client may be gone
		o.held = nil
	}
}

// refuse answers with a JSON-RPC error.
func (o *response) refuse(status int, text string) {
	code := -32600 // the request is at fault
	if status >= http.StatusInternalServerError {
		code = -32603
	}
	if text == "" {
		text = http.StatusText(status)
	}
	h := o.w.Header()
	h.Del("Content-Length")
	h.Del("X-Content-Type-Options")
	h.Set("Content-Type", "application/json")
	o.w.WriteHeader(status)
	_, _ = o.w.Write(jsonrpc.AppendError(nil, o.id, code, text, nil)) // the client may be gone
	o.headed, o.refused = true, 0
}

// flushing is a response whose writer can flush: SDKs look for the method to find out.
type flushing struct {
	*response

	flusher http.Flusher
}

func (f flushing) Flush() { _ = f.FlushError() }

func (f flushing) FlushError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused != 0 {
		return nil
	}
	if e, ok := f.flusher.(interface{ FlushError() error }); ok {
		f.headed = true
		return e.FlushError()
	}
	f.headed = true
	f.flusher.Flush()
	return nil
}
