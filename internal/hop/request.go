package hop

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

// Request is a request that is to be forwarded.
type Request struct {
	*http.Request        // as this process got it; it is not changed
	Sent          []byte // the body, as it was read
	IsCall        bool   // it has requests, so its answer may take as long as these run
	NoFlush       bool   // the response writer here cannot flush
	Left          time.Duration
	// AskUntil says that its client has waited for long: the owner is asked first whether it answers, until that time. Zero: it is not.
	AskUntil time.Time
}

// ownOfAHop are the header fields that are about one connection only (RFC 9110, 7.6.1), and those that this hop sets itself. A body that was
// read here may have been decoded by a middleware that left the field, so it is sent as what it is.
var ownOfAHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Expect": true, "Content-Length": true, "Content-Encoding": true, "Accept-Encoding": true, Header: true,
}

var identity = []string{"identity"}

// header is the header of a request on its hop.
func (q *Request) header(note []string) http.Header {
	h := make(http.Header, len(q.Header)+2)
	for name, values := range q.Header {
		if !ownOfAHop[name] {
			h[name] = values
		}
	}
	for _, line := range q.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			delete(h, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
	// net/http sends a request twice by itself if it finds one of these under its canonical name. On the wire the case makes no difference.
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
	h["Accept-Encoding"] = identity // compression is the business of each process
	h[Header] = note
	return h
}

// target is the URL of a request at a process.
func target(at *url.URL, r *http.Request) *url.URL {
	u := &url.URL{Scheme: at.Scheme, Host: at.Host}
	switch uri := r.RequestURI; {
	case strings.HasPrefix(uri, "/") && !strings.HasPrefix(uri, "//"):
		u.Opaque = strings.ReplaceAll(uri, " ", "%20") // else as it came: HTTP/2 lets it have spaces, HTTP/1.1 does not
	default: // it names the host, as a request to a proxy does; or was made without a network
		from := r.URL
		if uri != "" {
			if parsed, err := url.ParseRequestURI(uri); err == nil {
				from = parsed
			}
		}
		u.Path, u.RawPath, u.RawQuery, u.ForceQuery = from.Path, from.RawPath, from.RawQuery, from.ForceQuery
	}
	return u
}

// out makes the request that is sent, without its body.
func (q *Request) out(ctx context.Context, at *url.URL, method string, note []string) *http.Request {
	out := &http.Request{
		Method: method, URL: target(at, q.Request), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: q.header(note), Host: q.Host,
	}
	return out.WithContext(ctx)
}
