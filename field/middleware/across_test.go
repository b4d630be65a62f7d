package middleware

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// between are the versions of HTTP that processes use among themselves.
var between = []struct {
	name      string
	transport func(t *testing.T) http.RoundTripper
}{
	{"HTTP/1.1", func(*testing.T) http.RoundTripper { return nil }}, // rejoin's own
	{"h2c", func(t *testing.T) http.RoundTripper {
		tr := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}},
}

// inTurn sends each request to another process than the request before.
type inTurn struct {
	next      int
	processes [2]struct {
		http.RoundTripper
		at *url.URL
	}
}

func (x *inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	p := &x.processes[x.next%2]
	x.next++
	r.URL.Scheme, r.URL.Host = p.at.Scheme, p.at.Host
	r.Host = p.at.Host
	return p.RoundTripper.RoundTrip(r)
}

// process is a server of a cluster, behind a router and a middleware of its own. Its clients have one listener, and the other processes another.
type process struct {
	*rejoin.Server
	lines  *logRecords
	router http.Handler
}

func newProcess(t *testing.T, r row, cfg rejoin.Config, g *gates, tr http.RoundTripper, closing *sync.WaitGroup) *process {
	t.Helper()
	p := &process{lines: new(logRecords)}
	others := httptest.NewUnstartedServer(nil)
	cfg.Logger = slog.New(p.lines)
	cfg.Cluster = &rejoin.Cluster{Name: "zoo", Self: "http://" + others.Listener.Addr().String(), Transport: tr}
	var err error
	p.Server, err = rejoin.NewServer(g.app(), cfg)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	p.router = r.mount(p.Server)
	others.Config.Handler = p.router
	start(t, others, false, closing)
	return p
}

// Through two processes and without stickiness, everything is as it is with one: every request goes to another process than the one before, so that
// half of them reach their session through its owner's own router and middleware.
func TestZooThroughAnotherProcess(t *testing.T) {
	var closing sync.WaitGroup
	defer closing.Wait()
	t.Run("rows", func(t *testing.T) {
		for _, r := range rows() {
			for _, p := range protocols {
				for _, b := range between {
					name := strings.ReplaceAll(r.middleware, "/", "-") + "/" + strings.ReplaceAll(p.name+" and "+b.name, "/", "-")
					t.Run(r.router+"/"+name, func(t *testing.T) {
						t.Parallel()
						throughAnother(t, r, p, b.transport(t), &closing)
					})
				}
			}
		}
	})
}

func throughAnother(t *testing.T, r row, p protocol, transport http.RoundTripper, closing *sync.WaitGroup) {
	g := new(gates)
	cfg := rejoin.Config{
		MaxBodyBytes: ownLimit, Store: cluster.NewMemory(eventstore.MemoryConfig{}),
		Policy: rejoin.Policy{StreamAfter: patience}, // so that a quick answer is plain JSON, however busy the machine
	}
	if r.origin != "" {
		cfg.AllowedOrigins = []string{r.origin}
	}
	var way inTurn
	var processes [2]*process
	for i := range processes {
		processes[i] = newProcess(t, r, cfg, g, transport, closing)
		at := listen(t, processes[i].router, p.tls, closing)
		way.processes[i].RoundTripper = p.dial(at)
		var err error
		way.processes[i].at, err = url.Parse(at.URL)
		require.NoError(t, err)
	}
	for _, ownerFirst := range []bool{false, true} { // so that each request goes both ways
		var got [2]string
		for i, zip := range []bool{false, true} {
			c := &client{t: t, http: &way, url: "http://process/mcp", proto: p.proto, origin: r.origin, gzip: zip}
			way.next = i // the owner
			c.initialize()
			if ownerFirst {
				way.next++
			}
			got[i] = everything(t, c, r, g, fmt.Sprint(zip, ownerFirst))
		}
		require.Equal(t, [2]string{r.plain, r.gzip}, got, "without and with Accept-Encoding: gzip")
	}
	var lines []string
	var forwarded, received int64
	for _, p := range processes {
		own, stats := p.lines.all(), p.Stats()
		require.Subset(t, said[r.plain], own)
		require.LessOrEqual(t, len(own), len(said[r.plain]), "a process says it once")
		require.Positive(t, stats.Forwarded)
		require.Zero(t, stats.Foreign+stats.OwnerLost+stats.Unreachable+stats.Misdirected+stats.Held+stats.Adopted+stats.Away)
		lines, forwarded, received = append(lines, own...), forwarded+stats.Forwarded, received+stats.Received
	}
	require.Subset(t, lines, said[r.plain], "a line names it")
	require.Equal(t, forwarded, received)
}
