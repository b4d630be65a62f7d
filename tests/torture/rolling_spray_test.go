package torture_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
)

// spray is a balancer without stickiness: each connection, which has one request, goes to the next process. It knows nothing of readiness: it passes over
// a process that refuses the connection. It counts the answers.
type spray struct {
	http.Transport

	f *fleet

	mu       sync.Mutex
	hosts    []string
	taken    int
	statuses map[int]int
}

func newSpray(f *fleet) *spray {
	s := &spray{f: f, statuses: map[int]int{}}
	s.DisableKeepAlives, s.DisableCompression, s.DialContext = true, true, s.dial
	return s
}

func (s *spray) add(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.hosts, host) {
		s.hosts = append(s.hosts, host)
	}
}

// sprayed is a connection to a process.
type sprayed struct {
	net.Conn

	host string
}

func (s *spray) dial(ctx context.Context, _, _ string) (c net.Conn, err error) {
	s.mu.Lock()
	s.taken++
	first, hosts := s.taken, append([]string(nil), s.hosts...)
	s.mu.Unlock()
	for i := range hosts {
		host := hosts[(first+i)%len(hosts)]
		if c, err = s.f.net.Dial(ctx, host); err == nil {
			return sprayed{c, host}, nil
		}
	}
	return nil, err
}

// RoundTrip returns also which process has got the request, as the field By of the answer.
func (s *spray) RoundTrip(r *http.Request) (*http.Response, error) {
	var by string
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { by = i.Conn.(sprayed).host }}
	res, err := s.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return nil, err
	}
	res.Header.Set("By", by)
	s.mu.Lock()
	s.statuses[res.StatusCode]++
	s.mu.Unlock()
	return res, nil
}
