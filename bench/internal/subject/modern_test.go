package subject

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachModern runs test for every subject of the modern era for which has returns true.
func eachModern(t *testing.T, has func(Subject) bool, test func(t *testing.T, s Subject)) {
	t.Helper()
	tested := 0
	for _, s := range All() {
		if !s.Modern || !has(s) {
			continue
		}
		tested++
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
	require.NotZero(t, tested)
}

// modern sends a modern request. params are its members beside _meta, beginning with a comma; name is what the head repeats of them.
func (c *client) modern(s Subject, method, name, params string) *answer {
	c.t.Helper()
	c.last++
	capabilities := "{}"
	if s.Tasks {
		capabilities = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s,"progressToken":"t%d"}%s}}`,
		c.last, method, capabilities, c.last, params)
	return c.do(http.MethodPost, body, "", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
}

func (c *client) callModern(s Subject, tool, arguments string) *answer {
	c.t.Helper()
	return c.modern(s, "tools/call", tool, `,"name":"`+tool+`","arguments":`+arguments)
}

func TestModernEcho(t *testing.T) {
	t.Parallel()
	eachModern(t, every, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		for i := range 3 {
			text := "text " + strconv.Itoa(i)
			a := c.callModern(s, Echo, `{"text":"`+text+`"}`)
			require.Equal(t, http.StatusOK, a.status)
			messages := a.all()
			require.Len(t, messages, 1)
			require.Equal(t, text, messages[0].text(t, a.number))
			require.Contains(t, string(messages[0].Result), `"resultType":"complete"`)
			require.Equal(t, s.Stream, a.stream, "SSE")
			require.Empty(t, a.header.Get("Mcp-Session-Id"))
		}
	})
}

func TestModernRequestsAreChecked(t *testing.T) {
	t.Parallel()
	eachModern(t, every, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		require.Equal(t, http.StatusBadRequest, c.modern(s, "tools/call", Hold, `,"name":"echo","arguments":{"text":""}`).status, "the name in the head differs")
		require.Equal(t, http.StatusBadRequest, c.callModern(s, "nothing", `{}`).status, "an unknown tool")
	})
}

// With tasks, hold with close becomes a task at once; its result is that of the call.
func TestModernHold(t *testing.T) {
	t.Parallel()
	eachModern(t, func(s Subject) bool { return s.Tasks }, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		made := c.callModern(s, Hold, `{"close":true,"text":" 17"}`).all()
		require.Len(t, made, 1)
		require.Contains(t, string(made[0].Result), `"resultType":"task"`)
		_, id, _ := strings.Cut(string(made[0].Result), `"taskId":"`)
		id, _, _ = strings.Cut(id, `"`)
		get := func() string {
			a := c.modern(s, "tasks/get", id, `,"taskId":"`+id+`"`).all()
			require.Len(t, a, 1)
			return string(a[0].Result)
		}
		require.Contains(t, get(), `"status":"working"`)
		c.gate.Open()
		for strings.Contains(get(), `"status":"working"`) {
			t.Log("the tool needs a moment")
		}
		require.Contains(t, get(), `"status":"completed"`)
		require.Contains(t, get(), holdAnswer+" 17")
	})
}

// Without tasks, hold waits for the gate, whatever it asks for.
func TestModernHoldWithoutTasks(t *testing.T) {
	t.Parallel()
	eachModern(t, func(s Subject) bool { return !s.Tasks }, func(t *testing.T, s Subject) {
		c := serve(t, s, 0)
		c.gate.Open()
		a := c.callModern(s, Hold, `{"close":true}`)
		messages := a.all()
		require.Len(t, messages, 1)
		require.Equal(t, holdAnswer, messages[0].text(t, a.number))
	})
}
