package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/internal/longcalls"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// tenants is an app with a server for each tenant, behind tokens that are "user/anything".
type tenants struct {
	t *testing.T
	c *rejointest.Client
}

func newTenants(t *testing.T) *tenants {
	servers := map[string]*mcp.Server{}
	for _, tenant := range []string{"a", "b"} {
		s := mcp.NewServer(&mcp.Implementation{Name: "server of " + tenant, Version: "1"}, nil)
		s.AddTool(&mcp.Tool{Name: "x", InputSchema: map[string]any{"type": "object"}},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				elapse(2 * time.Second)
				c := longCallOf(ctx, req)
				who := tenant + " " + auth.TokenInfoFromContext(ctx).UserID + " " + req.Extra.TokenInfo.UserID
				if c.State == "" {
					return longCallResult(longcalls.Outcome{Asks: map[string]string{"k": who}, State: who})
				}
				return text("%s, %s", c.State, who), nil
			})
		servers[tenant] = s
	}
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		user, _, _ := strings.Cut(token, "/")
		return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour)}, nil
	}
	app := NewFunc(func(r *http.Request) *mcp.Server { return servers[r.Header.Get("X-Tenant")] })
	return &tenants{t, rejointest.New(t, app, rejointest.Config{
		Header: http.Header{"X-Tenant": {"a"}, "Authorization": {"Bearer first/1"}},
		Server: rejoin.Config{Eras: rejoin.EraBoth, Principal: Principal, Policy: rejoin.Policy{TaskAfter: time.Second}},
		Handler: func(srv *rejoin.Server) http.Handler {
			return auth.RequireBearerToken(verify, nil)(stdadapter.New(srv))
		},
	})}
}

// send sends a modern request and returns the whole answer. more is members of its params.
func (n *tenants) send(tenant, token, method, name, more string) string {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, "", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+
		`","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`+more+`}}`))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": nil,
		"Mcp-Protocol-Version": {modernVersion}, "Mcp-Method": {method}, "X-Tenant": {tenant}, "Authorization": {"Bearer " + token},
	}
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	body, err := io.ReadAll(n.c.Do(r).Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(body)
}

// about sends a request about a task.
func (n *tenants) about(tenant, token, method, task, more string) string {
	n.t.Helper()
	synctest.Wait()
	return n.send(tenant, token, method, task, `,"taskId":"`+task+`"`+more)
}

// Each tenant's task is served by its server, also when it runs again, and belongs to its user.
func TestTasksOfTenants(t *testing.T) {
	if !modernEra(t) {
		return
	}
	bubble(t, func(t *testing.T) {
		n := newTenants(t)
		tasks := map[string]string{}
		for _, who := range []string{"a ann", "b ann", "a bob", "b bob"} {
			tenant, user := who[:1], who[2:]
			var made struct{ Result struct{ TaskID string } }
			answer := n.send(tenant, user+"/1", "tools/call", "x", `,"name":"x","arguments":{}`)
			if err := json.Unmarshal([]byte(answer), &made); err != nil || made.Result.TaskID == "" {
				t.Fatal(answer)
			}
			tasks[who] = made.Result.TaskID
		}
		elapse(time.Second)
		unknown := n.about("a", "ann/1", "tasks/get", "unknown", "")
		for who, task := range tasks {
			tenant, user := who[:1], who[2:]
			if got := n.about(tenant, user+"/2", "tasks/get", task, ""); !strings.Contains(got, fmt.Sprintf("%q", who+" "+user)) { // the question
				t.Errorf("%s: %s", who, got)
			}
			n.about(tenant, user+"/2", "tasks/update", task, `,"inputResponses":{"r1.k":{"action":"accept","content":{"x":"y"}}}`)
			elapse(2 * time.Second)
			want := fmt.Sprintf("%q", who+" "+user+", "+who+" "+user)
			if got := n.about(tenant, user+"/3", "tasks/get", task, ""); !strings.Contains(got, want) {
				t.Errorf("%s: %s", who, got)
			}
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				if got := n.about(tenant, "eve/1", method, task, `,"inputResponses":{}`); got != unknown {
					t.Errorf("%s for another user: %s", method, got)
				}
			}
		}
	})
}

// Where there are several servers, an answer about a task names none that is not its own.
func TestTasksNameNoOtherServer(t *testing.T) {
	if !modernEra(t) {
		return
	}
	bubble(t, func(t *testing.T) {
		n := newTenants(t)
		for _, tenant := range []string{"a", "b", "a"} {
			answer := n.send(tenant, "ann/1", "server/discover", "", "")
			if !strings.Contains(answer, "server of "+tenant) {
				t.Fatal(answer)
			}
		}
		for tenant, other := range map[string]string{"a": "b", "b": "a"} {
			answer := n.send(tenant, "ann/1", "tools/call", "x", `,"name":"x","arguments":{}`)
			if !strings.Contains(answer, `"task"`) || strings.Contains(answer, "server of "+other) {
				t.Errorf("the task of %s: %s", tenant, answer)
			}
		}
	})
}
