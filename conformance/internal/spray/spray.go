// Package spray is a load balancer without stickiness: what stands between the clients and the processes of a cluster.
package spray

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

// New returns a front that sends each request to the next of the servers, given as host:port. It passes over a server that does not take the
// connection, as load balancers do, and answers 502 if none does. Streams are passed on at once, the Host is the client's, and a client that
// leaves ends its request at the server.
func New(servers ...string) http.Handler {
	next := &turn{servers: servers}
	proxy := &httputil.ReverseProxy{
		// A connection serves one request: the process that accepts it gets the request.
		Transport: &http.Transport{DialContext: next.dial, DisableKeepAlives: true, DisableCompression: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "cluster"})
			r.Out.Host = r.In.Host
		},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:      log.New(io.Discard, "", 0), // it reports clients that leave
	}
	return ReadFirst(proxy)
}

// ReadFirst reads the body of a request before proxy gets it. net/http closes the body at the first byte of the response, and if
// httputil.ReverseProxy has not looked for its end by then, it breaks the connection.
func ReadFirst(proxy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

// turn knows whose turn it is.
type turn struct {
	servers []string
	taken   atomic.Uint64
}

func (t *turn) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	first := t.taken.Add(1) - 1
	var faults []error
	for i := range uint64(len(t.servers)) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, t.servers[(first+i)%uint64(len(t.servers))])
		if err == nil {
			return c, nil
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}
