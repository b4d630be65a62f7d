package rejoin

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Modern returns the handler of modern requests. A Server has checked them (readPost).
func (a *handlerApp) Modern() http.Handler { return http.HandlerFunc(a.serveModern) }

func (a *handlerApp) serveModern(w http.ResponseWriter, r *http.Request) {
	c := HandleFromContext(r.Context()).modern
	body, err := io.ReadAll(r.Body)
	m, fault := jsonrpc.Parse(body, maxJSONDepth)
	if c == nil || err != nil || fault != nil {
		http.Error(w, "rejoin: this handler works only behind a Server", http.StatusInternalServerError)
		return
	}
	if m.Kind == jsonrpc.Notification { // none has an effect: a client cancels a request by closing its connection
		w.WriteHeader(http.StatusAccepted)
		return
	}
	out := &modernAnswer{modernCall: c, app: a, w: w}
	switch e := checkModernMeta(c.srv, r.Header, &m); {
	case m.Kind != jsonrpc.Request:
		out.refuse(http.StatusBadRequest, Errorf(CodeInvalidRequest, "an answer: in this version the server asks nothing"))
	case !c.json && !c.stream:
		out.refuse(refuseAccept.status, Errorf(refuseAccept.code, "%s", refuseAccept.message))
	case e != nil:
		out.refuse(modernStatus(e), e)
	case c.method == "server/discover":
		a.discover(out)
	case c.method == methodListen && !c.stream:
		out.refuse(refuseNoStream.status, Errorf(refuseNoStream.code, "%s", refuseNoStream.message))
	case c.method == methodListen:
		serveListen(w, r.Context(), c.srv, c.id, nil, func() {})
	default:
		a.call(out, &Request{Method: c.method, Params: m.Params, Header: r.Header})
	}
}

// call lets the Handler answer, in a goroutine of its own, which it may end. A silent call becomes a stream after Config.KeepAlive, because
// comments can only be sent in a stream.
func (a *handlerApp) call(out *modernAnswer, r *Request) {
	if out.srv.cfg.KeepAlive > 0 {
		defer time.AfterFunc(out.srv.cfg.KeepAlive, out.out.Begin).Stop()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.answer(out, r)
	}()
	<-done
}

// discover says what the server offers.
func (a *handlerApp) discover(c *modernAnswer) {
	var result json.RawMessage
	capabilities, err := modernCapabilities(a.info.Capabilities)
	if err == nil {
		result, err = json.Marshal(struct {
			Versions     []string                   `json:"supportedVersions"`
			Capabilities map[string]json.RawMessage `json:"capabilities"`
			Instructions string                     `json:"instructions,omitempty"`
		}{c.srv.versions(), capabilities, a.info.Instructions})
	}
	replyTo(c, result, true, err)
}

// modernCapabilities leaves out what needs a session: subscriptions, changes of lists, and the tasks of older versions.
func modernCapabilities(all map[string]any) (map[string]json.RawMessage, error) {
	offered := make(map[string]json.RawMessage, len(all))
	for name, capability := range all {
		value, err := json.Marshal(capability)
		var options map[string]json.RawMessage
		if err == nil && json.Unmarshal(value, &options) == nil && options != nil {
			delete(options, "subscribe")
			delete(options, "listChanged")
			value, err = json.Marshal(options)
		}
		if err != nil {
			return nil, err
		}
		if name != "tasks" {
			offered[name] = value
		}
	}
	return offered, nil
}

// modernResult adds what the modern era requires in a result and the Handler has not set: resultType, who the server is, and how long what was
// read may be kept (not at all). A result that is not an object stays as it is.
func (a *handlerApp) modernResult(method string, result []byte) []byte {
	if len(result) == 0 {
		result = []byte("{}")
	}
	if !isObject(result) {
		return result
	}
	info := `"` + metaServerInfo + `":` + string(a.info.server())
	var add []string
	from, to, ok := jsonrpc.Find(result, "_meta")
	if !ok {
		add = append(add, `"_meta":{`+info+"}")
	} else if _, named := jsonrpc.Field(result[from:to], metaServerInfo); !named && isObject(result[from:to]) {
		result = append(result[:from:from], append(addMembers(result[from:to], info), result[to:]...)...)
	}
	members := []string{"resultType", `"complete"`}
	switch method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover":
		members = append(members, "ttlMs", "0", "cacheScope", `"private"`)
	}
	for i := 0; i < len(members); i += 2 {
		if _, ok := jsonrpc.Field(result, members[i]); !ok {
			add = append(add, `"`+members[i]+`":`+members[i+1])
		}
	}
	return addMembers(result, add...)
}

// server returns who the server is, as JSON.
func (i *Info) server() []byte {
	return slices.Concat([]byte(`{"name":`), jsonrpc.AppendString(nil, i.Name), []byte(`,"version":`), jsonrpc.AppendString(nil, i.Version), []byte("}"))
}

// addMembers returns a copy of a JSON object with more members at its beginning.
func addMembers(object []byte, members ...string) []byte {
	if len(members) == 0 {
		return object
	}
	head, rest := "{"+strings.Join(members, ","), bytes.TrimLeft(object, whiteSpace)[1:]
	if !bytes.HasPrefix(bytes.TrimLeft(rest, whiteSpace), []byte("}")) {
		head += ","
	}
	return append([]byte(head), rest...)
}

const whiteSpace = " \t\r\n" // of JSON

func isObject(value []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(value, whiteSpace), []byte("{"))
}
