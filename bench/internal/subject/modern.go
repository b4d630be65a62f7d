package subject

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// The subjects of the modern era: version 2026-07-28, which has no sessions. Where Tasks is set, the server is the same, but its clients declare
// the tasks extension.

const bareModernName = "bare-modern"

var moderns = append([]Subject{
	{
		Name: bareModernName, Base: bareModernName, Modern: true, New: newBareModern,
		Notes: "Version 2026-07-28, without sessions. Written by hand with encoding/json: checks what the version requires of head and body, and " +
			"answers JSON. No tasks.",
	},
	{
		Name: "gosdk-modern", Base: bareModernName, Modern: true, Stream: true,
		New:   newGoSDK(false, false, mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}),
		Notes: "Version 2026-07-28. go-sdk, Stateless, PropagateRequestCancellation: a session for each request, answers in SSE. No tasks.",
	},
	{
		Name: "mcpgo-modern", Base: bareModernName, Modern: true, New: newMCPGo(false, false, true),
		Notes: "Version 2026-07-28. The handler of mcpgo-json, which serves this version too: JSON unless a tool notifies. No tasks.",
	},
}, withTasks([]Subject{
	{
		Name: "rejoin-modern", Base: bareModernName, Modern: true, New: newRejoin(rejoin.ModeAuto, ownApp),
		Notes: "Version 2026-07-28. The server of rejoin-json, which serves this version too.",
	},
	{
		Name: "rejoin-gosdk-modern", Base: bareModernName, Modern: true, Stream: true, New: newRejoin(rejoin.ModeAuto, goSDKApp(false)),
		Notes: "Version 2026-07-28. The server of gosdk-modern behind rejoin.",
	},
	{
		Name: "rejoin-mcpgo-modern", Base: bareModernName, Modern: true, New: newRejoin(rejoin.ModeAuto, mcpGoApp(false)),
		Notes: "Version 2026-07-28. The server of mcpgo-modern behind rejoin.",
	},
})...)

// withTasks lists each subject with clients that do not declare tasks, and with clients that do.
func withTasks(subjects []Subject) (all []Subject) {
	for _, s := range subjects {
		declared := s
		declared.Name += "-tasks"
		declared.Tasks = true
		declared.Notes = s.Name + ", with clients that declare the tasks extension. Calls that last, or whose tool asks for it, become tasks."
		all = append(all, s, declared)
	}
	return all
}

// bareModern serves tools/call of the modern era with the tools of bare.
type bareModern struct{ tools *bare }

func newBareModern(o Options) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.Handle(Path, &bareModern{&bare{gate: o.Gate}})
	return mux, nil
}

// modernMeta is what the era requires in params._meta.
type modernMeta struct {
	Version      string          `json:"io.modelcontextprotocol/protocolVersion"`
	Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
}

// modernResult is a result with what the era requires in it.
type modernResult struct {
	Type string `json:"resultType"`
	*callResult
	Meta struct {
		Server struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"io.modelcontextprotocol/serverInfo"`
	} `json:"_meta"`
}

const modernVersion = "2026-07-28"

func (b *bareModern) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" { // web pages may not call it
		http.Error(w, "forbidden origin", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	m, ok := readBare(w, r)
	if !ok {
		return
	}
	if m.ID == nil {
		http.Error(w, "not a JSON-RPC request", http.StatusBadRequest)
		return
	}
	c := bareCall{}
	var params struct {
		Meta modernMeta `json:"_meta"`
	}
	if err := errors.Join(json.Unmarshal(m.Params, &c.params), json.Unmarshal(m.Params, &params)); err != nil {
		b.refuse(w, &m, "no params that can be decoded")
		return
	}
	switch {
	case m.Method != "tools/call":
		b.refuse(w, &m, "unknown method")
	case r.Header.Get("Mcp-Protocol-Version") != modernVersion, params.Meta.Version != modernVersion, params.Meta.Capabilities == nil:
		b.refuse(w, &m, "the version or the capabilities are missing")
	case r.Header.Get("Mcp-Method") != m.Method, r.Header.Get("Mcp-Name") != c.params.Name:
		b.refuse(w, &m, "the head differs from the body")
	default:
		result, err := b.tools.run(r.Context(), &c)
		if err != nil {
			b.refuse(w, &m, err.Error())
			return
		}
		out := modernResult{Type: "complete", callResult: result}
		out.Meta.Server.Name, out.Meta.Server.Version = serverName, serverVersion
		b.tools.answer(w, &m, out, nil)
	}
}

func (b *bareModern) refuse(w http.ResponseWriter, m *bareRequest, why string) {
	data, err := respond(m.ID, nil, errors.New(why))
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(data)
}
