package rejoin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// sink is a response writer that does not allocate, so that only the handler's own allocations are counted.
type sink struct {
	header http.Header
	body   []byte
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { s.body = append(s.body, p...); return len(p), nil }
func (s *sink) Flush()                      {}

// bench is a server with one session, and a request that is sent repeatedly.
type bench struct {
	srv  *Server
	sink sink
	body *bytes.Reader
	raw  []byte
	req  *http.Request
}

func newBench(tb testing.TB, policy Policy, call string) *bench {
	tb.Helper()
	return newBenchOf(tb, policy, call, hello)
}

func hello(context.Context, *Request) (any, error) {
	return json.RawMessage(`{"content":[{"type":"text","text":"hello"}]}`), nil
}

func newBenchOf(tb testing.TB, policy Policy, call string, tool Handler) *bench {
	tb.Helper()
	return newBenchWith(tb, Config{Policy: policy}, call, tool)
}

func newBenchWith(tb testing.TB, cfg Config, call string, tool Handler) *bench {
	tb.Helper()
	app := NewApp(Info{Name: "bench", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}, tool)
	srv, err := NewServer(app, cfg)
	require.NoError(tb, err)
	if cfg.Cluster != nil {
		tb.Cleanup(srv.Close)
	}
	b := &bench{srv: srv, body: bytes.NewReader(nil)}
	b.post(tb, `{"jsonrpc":"2.0","id":0,"method":"initialize",`+
		`"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	b.do()
	require.Equal(tb, http.StatusOK, b.sink.status, string(b.sink.body))
	session := b.sink.header.Get(sessionHeader)
	b.post(tb, call)
	b.req.Header.Set(sessionHeader, session)
	return b
}

func (b *bench) post(tb testing.TB, body string) {
	tb.Helper()
	b.raw = []byte(body)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/mcp", nil)
	require.NoError(tb, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Body, req.ContentLength = io.NopCloser(b.body), int64(len(b.raw))
	b.req = req
	b.sink.header = http.Header{}
}

func (b *bench) do() {
	b.body.Reset(b.raw)
	clear(b.sink.header)
	b.sink.body = b.sink.body[:0]
	b.srv.Serve(&b.sink, b.req)
}

const echoCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"progressToken":1}}}`

// clustered returns the configuration of the only process of a cluster. The engine never waits, or is used as one across the network.
func clustered(policy Policy, remote bool) Config {
	engine := remoteEngine{cluster.NewMemory(eventstore.MemoryConfig{})}
	cfg := Config{Policy: policy, Store: engine.Memory, Cluster: &Cluster{Name: "bench", Self: "http://127.0.0.1:1"}}
	if remote {
		cfg.Store = engine
	}
	return cfg
}

// remoteEngine is not Instant.
type remoteEngine struct{ *cluster.Memory }

func (remoteEngine) Instant() bool { return false }

// What the handler allocates for one call, with its tool's goroutine, without the work of net/http.
func TestAllocationBudget(t *testing.T) {
	sse := Policy{Mode: ModeSSE, StreamAfter: 1 << 40}
	for _, tt := range []struct {
		name   string
		cfg    Config
		want   string
		budget float64
	}{
		{"JSON", Config{}, `"result"`, 16},
		{"SSE, stored and primed", Config{Policy: sse}, "retry: ", 20},
		{"JSON in a cluster", clustered(Policy{}, false), `"result"`, 16},
		{"JSON in a cluster, remote engine", clustered(Policy{}, true), `"result"`, 16},
		{"SSE in a cluster", clustered(sse, false), "retry: ", 28},
		{"SSE in a cluster, remote engine", clustered(sse, true), "retry: ", 38},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBenchWith(t, tt.cfg, echoCall, hello)
			b.do()
			require.Contains(t, string(b.sink.body), tt.want)
			got := testing.AllocsPerRun(500, b.do)
			t.Logf("%v allocations", got)
			require.LessOrEqual(t, got, tt.budget)
		})
	}
}

// A store that embeds the memory store costs as much as the memory store: the server asks what a store can do, not for its type.
func TestAllocationBudgetOfAWrappedStore(t *testing.T) {
	store := struct{ *eventstore.Memory }{eventstore.NewMemory(eventstore.MemoryConfig{})}
	b := newBenchWith(t, Config{Policy: Policy{Mode: ModeSSE, StreamAfter: 1 << 40}, Store: store}, echoCall, hello)
	b.do()
	require.Contains(t, string(b.sink.body), "retry: ")
	require.LessOrEqual(t, testing.AllocsPerRun(500, b.do), 20.0)
	require.Positive(t, b.srv.Stats().StoredBytes)
}

func BenchmarkCall(b *testing.B) {
	sse := Policy{Mode: ModeSSE}
	for _, mode := range []struct {
		name string
		cfg  func() Config
	}{
		{"JSON", func() Config { return Config{} }},
		{"SSE", func() Config { return Config{Policy: sse} }},
		{"JSON-cluster", func() Config { return clustered(Policy{}, false) }},
		{"SSE-cluster", func() Config { return clustered(sse, false) }},
		{"SSE-cluster-remote", func() Config { return clustered(sse, true) }},
	} {
		b.Run(mode.name, func(b *testing.B) {
			s := newBenchWith(b, mode.cfg(), echoCall, hello)
			b.ReportAllocs()
			for b.Loop() {
				s.do()
			}
		})
	}
}

// A session from initialize to DELETE, alone and beside many idle sessions.
func BenchmarkSession(b *testing.B) {
	for _, idle := range []int{0, 20_000} {
		b.Run(strconv.Itoa(idle)+"-idle", func(b *testing.B) {
			s := newBenchWith(b, Config{MaxSessions: -1}, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, hello)
			initialized, initializedRaw := s.req, s.raw
			initialized.Header.Set(versionHeader, "2025-11-25")
			deletion, err := http.NewRequestWithContext(b.Context(), http.MethodDelete, "/mcp", nil)
			require.NoError(b, err)
			deletion.Header.Set(versionHeader, "2025-11-25")
			s.post(b, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
				`"clientInfo":{"name":"bench","version":"1"}}}`)
			initialize, initializeRaw := s.req, s.raw
			do := func(req *http.Request, raw []byte, status int) {
				s.req, s.raw, s.sink.status = req, raw, 0
				if s.do(); s.sink.status != status {
					b.Fatal(s.sink.status, string(s.sink.body))
				}
			}
			open := func() {
				do(initialize, initializeRaw, http.StatusOK)
				session := s.sink.header[sessionHeader]
				initialized.Header[sessionHeader], deletion.Header[sessionHeader] = session, session
				do(initialized, initializedRaw, http.StatusAccepted)
			}
			for range idle {
				open()
			}
			b.ReportAllocs()
			for b.Loop() {
				open()
				do(deletion, nil, http.StatusNoContent)
			}
		})
	}
}

// 10,000 notifications of one call, as fast as its tool can send them.
func BenchmarkProgress(b *testing.B) {
	const events = 10_000
	s := newBenchOf(b, Policy{}, echoCall, func(ctx context.Context, _ *Request) (any, error) {
		h := HandleFromContext(ctx)
		for i := range events {
			if err := h.Progress(float64(i), events, "step"); err != nil {
				return nil, err
			}
		}
		return struct{}{}, nil
	})
	b.ReportAllocs()
	for b.Loop() {
		s.do()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}

// TestIdleSessionsAreSmall: an idle session holds little memory, however much its client sent to open it. Other tests may run at the same time, so
// the limit is far above what is measured, and far below the size of the bodies.
func TestIdleSessionsAreSmall(t *testing.T) {
	const sessions, body, limit = 300, 60 << 10, 16 << 10
	b := newBench(t, Policy{}, echoCall)
	open := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"x":"` +
		strings.Repeat("x", body) + `"}},"clientInfo":{"name":"t","version":"1"}}}`
	held := func() int64 {
		runtime.GC()
		runtime.GC() // the first one does not empty pools completely
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	for range sessions {
		b.post(t, open)
		b.do()
		require.Equal(t, http.StatusOK, b.sink.status)
	}
	share := (held() - before) / sessions
	t.Logf("%d bytes", share)
	require.Less(t, share, int64(limit))
	for _, s := range b.srv.all() {
		require.True(t, bytes.Equal([]byte(`{"name":"t","version":"1"}`), s.clientInfo()), "what is kept of the client")
	}
}

// A notification that an app keeps holds no more memory than twice its own bytes: it shares its body's memory, or it is a copy.
func TestANotificationHoldsLittleOfItsBody(t *testing.T) {
	const raw = `{"jsonrpc":"2.0","method":"notifications/x","params":{"n":1}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
	require.NoError(t, err)
	for _, tt := range []struct {
		name   string
		before int // bytes of the body before the notification
		spare  int // and free ones behind it
		known  bool
		copied bool
	}{
		{"alone", 0, 1, true, false},
		{"half of the body", len(raw), 0, true, false},
		{"less than half", len(raw) + 1, 0, true, true},
		{"before much free memory", 0, len(raw) + 1, true, true},
		{"in an unknown body", 0, 0, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := make([]byte, tt.before, tt.before+len(raw)+tt.spare)
			body = append(body, raw...)
			m, err := jsonrpc.Parse(body[tt.before:], maxJSONDepth)
			require.NoError(t, err)
			known := body
			if !tt.known {
				known = nil
			}
			n := newNotification(nil, r, &m, known)
			require.True(t, bytes.Equal([]byte(raw), n.Raw()))
			require.Equal(t, "notifications/x", n.Method())
			require.Equal(t, `{"n":1}`, string(n.Params()))
			clear(body)
			require.Equal(t, tt.copied, string(n.Raw()) == raw && string(n.Params()) == `{"n":1}`)
		})
	}
}

// plainApp answers modern requests as an SDK's handler does that has nothing to do.
type plainApp struct{ App }

func (plainApp) Modern() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[{"type":"text","text":"hello"}]}}`)
	})
}

// A quick call of the modern era costs the same whether its client takes tasks or not.
func BenchmarkModernCall(b *testing.B) {
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`
	for _, caps := range []struct{ name, json string }{{"undeclared", `{}`}, {"declared", `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`}} {
		for _, app := range []string{"NewApp", "plain"} {
			b.Run(app+"/"+caps.name, func(b *testing.B) {
				s := newBenchWith(b, Config{Eras: EraBoth}, echoCall, hello)
				if app == "plain" {
					s.srv.modernApp = plainApp{}.Modern()
				}
				s.post(b, call+caps.json+`}}}`)
				for name, value := range map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"} {
					s.req.Header.Set(name, value)
				}
				b.ReportAllocs()
				for b.Loop() {
					s.do()
				}
				if s.sink.status != 0 && s.sink.status != http.StatusOK {
					b.Fatal(s.sink.status, string(s.sink.body))
				}
			})
		}
	}
}

// newForwardingBench is a bench whose server forwards the request to another one, which owns the session and is reached over loopback. transport may be
// nil.
func newForwardingBench(tb testing.TB, policy Policy, transport http.RoundTripper) *bench {
	tb.Helper()
	engine := cluster.NewMemory(eventstore.MemoryConfig{})
	var owner *bench
	made := make(chan struct{}) // the owner asks for itself before that
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-made
		owner.srv.Serve(w, r)
	}))
	tb.Cleanup(listening.Close)
	owner = newBenchWith(tb, Config{Policy: policy, Store: engine, Cluster: &Cluster{Name: "bench", Self: listening.URL}}, echoCall, hello)
	close(made)
	at := &Cluster{Name: "bench", Self: "http://127.0.0.1:1", Transport: transport}
	srv, err := NewServer(owner.srv.app, Config{Policy: policy, Store: engine, Cluster: at})
	require.NoError(tb, err)
	tb.Cleanup(srv.Close)
	b := *owner
	b.srv, b.sink.header, b.sink.body = srv, http.Header{}, nil
	b.do()
	require.Equal(tb, int64(1), srv.Stats().Forwarded)
	return &b
}

// echoing answers each request as the first one was answered, and allocates nothing.
type echoing struct {
	to   http.RoundTripper
	res  http.Response
	body bytes.Reader
	raw  []byte
}

func (t *echoing) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.raw == nil {
		res, err := t.to.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if t.raw, err = io.ReadAll(res.Body); err != nil {
			return nil, err
		}
		t.res = *res
		t.res.Body = io.NopCloser(&t.body)
	}
	t.body.Reset(t.raw)
	return &t.res, nil
}

// What a server allocates for a call that it forwards, without the work of net/http and that of the owner.
func TestAllocationBudgetOfForwarding(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy Policy
		want   string
		budget float64
	}{
		{"JSON", Policy{}, `"result"`, 20},
		{"SSE", Policy{Mode: ModeSSE, StreamAfter: 1 << 40}, "retry: ", 21},
	} {
		t.Run(tt.name, func(t *testing.T) {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			b := newForwardingBench(t, tt.policy, &echoing{to: transport})
			b.do()
			require.Contains(t, string(b.sink.body), tt.want)
			got := testing.AllocsPerRun(500, b.do)
			t.Logf("%v allocations", got)
			require.LessOrEqual(t, got, tt.budget)
		})
	}
}

func BenchmarkForwarded(b *testing.B) {
	for _, mode := range []struct {
		name   string
		policy Policy
	}{{"JSON", Policy{}}, {"SSE", Policy{Mode: ModeSSE}}} {
		for _, net := range []string{"loopback", "alone"} {
			b.Run(mode.name+"/"+net, func(b *testing.B) {
				var transport http.RoundTripper
				if net == "alone" {
					own := &http.Transport{}
					defer own.CloseIdleConnections()
					transport = &echoing{to: own}
				}
				s := newForwardingBench(b, mode.policy, transport)
				b.ReportAllocs()
				for b.Loop() {
					s.do()
				}
			})
		}
	}
}
