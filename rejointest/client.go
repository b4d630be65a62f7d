package rejointest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Client is a client with one session. Call its methods, and those of its calls, from the test's goroutine: they wait until all other
// goroutines of the bubble are at rest (synctest.Wait), and fail the test with what was seen on the wire.
type Client struct {
	*world

	clustered bool              // a client of a Cluster
	ref       rejoin.SessionRef // of its session; "": not in a Cluster

	// These are written before the goroutines start that read them.
	session, version string
	lastID           int

	asked map[string]bool // ids of the server's requests that were answered; guarded by the mutex of the world
}

// New starts app behind a real http.Server and opens a session: initialize, then initialized. Call it in the bubble of
// synctest.Test, with the bubble's t. It fails the test if there is no bubble, if the configuration is refused, or if the app
// opens no session.
//
// Everything ends in a cleanup of t: the server is closed, which cancels the tools' contexts, connections break, and tools that do
// not look at their context get Patience to return. A goroutine that runs even then is a leak, and the bubble panics.
func New(t testing.TB, app rejoin.App, cfg Config) *Client {
	t.Helper()
	if cfg.Processes != 0 || cfg.Each != nil {
		t.Fatal("rejointest: New starts one process: Config.Processes and Config.Each are for NewCluster")
	}
	w := newWorld(t, "New", cfg)
	w.start(&Process{addr: serverAddr}, func() (*rejoin.Server, error) { return rejoin.NewServer(app, w.cfg.Server) })
	return w.newClient(false)
}

func (w *world) newClient(clustered bool) *Client {
	w.t.Helper()
	c := &Client{world: w, clustered: clustered, asked: map[string]bool{}}
	others := w.refs()
	c.initialize()
	if clustered {
		for ref := range w.refs() {
			if !others[ref] {
				c.ref = ref
			}
		}
	}
	return c
}

// refs are the names of all sessions.
func (w *world) refs() map[rejoin.SessionRef]bool {
	refs := map[rejoin.SessionRef]bool{}
	for _, p := range w.all() {
		for info := range p.Sessions() {
			refs[info.Ref] = true
		}
	}
	return refs
}

// initialize opens the session.
func (c *Client) initialize() {
	c.t.Helper()
	call := c.Start("initialize", map[string]any{
		"protocolVersion": c.cfg.Version, "capabilities": c.cfg.Capabilities,
		"clientInfo": map[string]string{"name": "rejointest", "version": "1"},
	})
	result := call.Result()
	raw, _ := jsonrpc.Field(result, "protocolVersion")
	if version, _ := jsonrpc.Unquote(raw); version != c.cfg.Version {
		call.fatalf("the app negotiated version %q, not the client's; set Config.Version", version)
	}
	c.session, c.version = call.Header().Get(sessionHeader), c.cfg.Version
	if c.session == "" {
		call.fatalf("no %s in the answer to initialize", sessionHeader)
	}
	c.Notify("notifications/initialized", nil)
}

// Server is the server under test: for Sessions, Stats, CloseStreams, Drain. In a Cluster, it is that of Owner.
func (c *Client) Server() *rejoin.Server {
	c.t.Helper()
	if !c.clustered {
		return c.all()[0].Server
	}
	return c.Owner().Server
}

// Owner is the process that owns the session at this moment: that runs its tools. In a Cluster it fails the test if no process owns the session:
// if its owner was killed, or has let go of it, and no request has come since that another process could have adopted it for.
func (c *Client) Owner() *Process {
	c.t.Helper()
	if !c.clustered {
		return c.all()[0]
	}
	synctest.Wait()
	for _, p := range c.all() {
		if p.ended() {
			continue
		}
		for info := range p.Sessions() {
			if info.Ref == c.ref {
				return p
			}
		}
	}
	c.t.Fatal("rejointest: no process owns the session at this moment")
	return nil
}

// CallTool starts a tools/call that asks for progress. args is marshalled with encoding/json; nil: none. When CallTool returns, the tool
// waits for something or has returned.
func (c *Client) CallTool(name string, args any) *Call {
	c.t.Helper()
	params := map[string]any{"name": name, "_meta": map[string]any{"progressToken": c.lastID + 1}}
	if args != nil {
		params["arguments"] = args
	}
	return c.Start("tools/call", params)
}

// Start starts any request, as CallTool does. params is marshalled with encoding/json; nil: none.
func (c *Client) Start(method string, params any) *Call {
	c.t.Helper()
	c.lastID++
	id := strconv.Itoa(c.lastID)
	body := jsonrpc.AppendRequest(nil, []byte(id), method, c.marshal(params))
	k := c.newCall(method+" (id "+id+")", id)
	k.send(c.request(http.MethodPost, body), "POST "+method)
	return k
}

// Listen opens the session's standalone stream, with a GET. No response comes on it, so Result fails the test, and Err is only for a
// refusal. If one is open already, the server ends the older.
func (c *Client) Listen() *Call {
	c.t.Helper()
	k := c.newCall("the standalone stream", "")
	k.send(c.request(http.MethodGet, nil), "GET")
	return k
}

// Notify sends a notification. params is marshalled with encoding/json; nil: none. It fails the test if the server does not accept it.
func (c *Client) Notify(method string, params any) {
	c.t.Helper()
	c.expect(http.StatusAccepted, c.request(http.MethodPost, jsonrpc.AppendRequest(nil, nil, method, c.marshal(params))), method)
	synctest.Wait()
}

// Delete ends the session. It fails the test if the server does not.
func (c *Client) Delete() {
	c.t.Helper()
	c.expect(http.StatusNoContent, c.request(http.MethodDelete, nil), "DELETE")
	synctest.Wait()
}

// Do sends any request over a connection of its own, and returns when the head of the response has come and the bubble is at rest.
// If the host, the path, the session id, the protocol version or fields of Config.Header are missing, it fills them in. To leave a header
// field out, set it to no values. The end of the request's context breaks the connection. Close the body, or leave that to the end of the
// test, which breaks the connection.
func (c *Client) Do(req *http.Request) *http.Response {
	c.t.Helper()
	req = req.Clone(req.Context())
	c.fill(req)
	res, err := c.roundTrip(req)
	if err != nil {
		c.t.Fatalf("rejointest: %s: %v", req.Method, err)
	}
	synctest.Wait()
	return res
}

// answer answers a request of the server in a goroutine of its own, if it comes for the first time.
func (c *Client) answer(m jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := string(m.ID); !c.asked[id] && !c.closing {
		c.asked[id] = true
		go c.sendAnswer(m)
	}
}

func (c *Client) sendAnswer(m jsonrpc.Message) {
	result, err := c.cfg.OnRequest(string(m.Method), json.RawMessage(m.Params))
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(result)
	}
	body := jsonrpc.AppendResult(nil, m.ID, raw)
	if err != nil {
		var e *rejoin.Error
		if !errors.As(err, &e) {
			e = rejoin.Errorf(rejoin.CodeInternal, "%v", err)
		}
		body = jsonrpc.AppendError(nil, m.ID, e.Code, e.Message, e.Data)
	}
	err = c.check(http.StatusAccepted, c.request(http.MethodPost, body))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !c.closing {
		c.t.Errorf("rejointest: the answer to %s (id %s) was not accepted: %v", m.Method, m.ID, err)
	}
}
