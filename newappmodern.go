package rejoin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

const (
	metaPrefix         = "io.modelcontextprotocol/"
	metaServerInfo     = metaPrefix + "serverInfo"
	metaSubscriptionID = metaPrefix + "subscriptionId"
	methodHeader       = "Mcp-Method"
	nameHeader         = "Mcp-Name"
)

// Modern returns the handler of modern requests. A Server has checked them (readPost).
func (a *handlerApp) Modern() http.Handler { return http.HandlerFunc(a.serveModern) }

func (a *handlerApp) serveModern(w http.ResponseWriter, r *http.Request) {
	srv := ServerFromContext(r.Context())
	body, err := io.ReadAll(r.Body)
	m, fault := jsonrpc.Parse(body, maxJSONDepth)
	if srv == nil || err != nil || fault != nil {
		http.Error(w, "rejoin: this handler works only behind a Server", http.StatusInternalServerError)
		return
	}
	if m.Kind == jsonrpc.Notification { // none has an effect: a client cancels a request by closing its connection
		w.WriteHeader(http.StatusAccepted)
		return
	}
	asJSON, asStream := door.Accepted(r.Header["Accept"])
	c := &modernCall{
		srv: srv, id: m.ID, method: methodName(m.Method), params: m.Params, answer: respond.NewAnswer(w, asJSON, asStream), app: a,
	}
	c.ctx = context.WithValue(r.Context(), handleKey{}, &Handle{modern: c})
	switch e := checkModernMeta(srv, r.Header, &m); {
	case m.Kind != jsonrpc.Request:
		c.refuse(http.StatusBadRequest, Errorf(CodeInvalidRequest, "an answer: in this version the server asks nothing"))
	case !asJSON && !asStream:
		c.refuse(refuseAccept.status, Errorf(refuseAccept.code, "%s", refuseAccept.message))
	case e != nil:
		c.refuse(modernStatus(e), e)
	case c.method == "server/discover":
		a.discover(c)
	case c.method == "subscriptions/listen" && !asStream:
		c.refuse(refuseNoStream.status, Errorf(refuseNoStream.code, "%s", refuseNoStream.message))
	case c.method == "subscriptions/listen":
		c.listen()
	default:
		a.call(c, r.Header)
	}
}

// call lets the Handler answer, in a goroutine of its own, which it may end. A silent call becomes a stream after Config.KeepAlive, because
// comments can only be sent in a stream.
func (a *handlerApp) call(c *modernCall, h http.Header) {
	if c.srv.cfg.KeepAlive > 0 {
		defer time.AfterFunc(c.srv.cfg.KeepAlive, c.answer.Begin).Stop()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.answer(c, &Request{Method: c.method, Params: c.params, Header: h})
	}()
	<-done
}

// checkModernMeta checks what the modern era requires of each request: its version, its method and name in header and body, and the client's
// capabilities (SEP-2575, SEP-2243).
func checkModernMeta(srv *Server, h http.Header, m *jsonrpc.Message) *Error {
	version, _ := door.Single(h[versionHeader])
	raw, _ := jsonrpc.Field(m.Params, "_meta", metaPrefix+"protocolVersion")
	declared, isString := jsonrpc.Unquote(raw)
	switch {
	case version == "":
		return Errorf(codeHeader, "%s is missing", versionHeader)
	case !isString:
		return Errorf(CodeInvalidParams, "params._meta needs %sprotocolVersion, a string", metaPrefix)
	case declared != version:
		return Errorf(codeHeader, "%s differs from the version in params._meta", versionHeader)
	case version != core.FirstModern:
		return &Error{Code: codeVersion, Message: unknownVersion, Data: json.RawMessage(srv.unknownVersionData(version))}
	}
	switch string(m.Method) {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return Errorf(CodeMethodNotFound, "version %s has no method %q", core.FirstModern, m.Method)
	}
	if e := checkModernNames(h, m); e != nil {
		return e
	}
	if capabilities, _ := jsonrpc.Field(m.Params, "_meta", metaPrefix+"clientCapabilities"); !isObject(capabilities) {
		return Errorf(CodeInvalidParams, "params._meta needs %sclientCapabilities, an object", metaPrefix)
	}
	return nil
}

// checkModernNames compares the method and the name in the header with those in the body.
func checkModernNames(h http.Header, m *jsonrpc.Message) *Error {
	if e := checkModernHeader(h, methodHeader, string(m.Method)); e != nil {
		return e
	}
	var field string
	switch string(m.Method) {
	case "tools/call", "prompts/get":
		field = "name"
	case "resources/read":
		field = "uri"
	default:
		return nil
	}
	raw, _ := jsonrpc.Field(m.Params, field)
	name, ok := jsonrpc.Unquote(raw)
	if !ok {
		return Errorf(CodeInvalidParams, "params needs a %s, a string", field)
	}
	return checkModernHeader(h, nameHeader, name)
}

// checkModernHeader checks that all lines of a header field have one value. A name may be encoded as =?base64?…?=.
func checkModernHeader(h http.Header, field, want string) *Error {
	lines := h[field]
	if len(lines) == 0 {
		return Errorf(codeHeader, "%s is missing", field)
	}
	for _, value := range lines {
		value = strings.Trim(value, " \t")
		if field == nameHeader {
			var ok bool
			if value, ok = door.DecodeHeader(value); !ok {
				return Errorf(codeHeader, "%s is not valid base64", field)
			}
		}
		if value != want {
			return Errorf(codeHeader, "%s differs from the body", field)
		}
	}
	return nil
}

// discover says what the server offers.
func (a *handlerApp) discover(c *modernCall) {
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

// listen serves a subscription. None of the notifications that it may name can come, so it only stays open until its client or the server ends
// it.
func (m *modernCall) listen() {
	meta := `{"_meta":{"` + metaSubscriptionID + `":` + string(m.id) + `}`
	_ = m.send(jsonrpc.AppendRequest(nil, nil, "notifications/subscriptions/acknowledged", []byte(meta+`,"notifications":{}}`))) // its end ends ctx
	<-m.ctx.Done()
	_ = m.reply(json.RawMessage(meta+"}"), true) // the client may be gone
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
	info := `"` + metaServerInfo + `":{"name":` + string(jsonrpc.AppendString(nil, a.info.Name)) +
		`,"version":` + string(jsonrpc.AppendString(nil, a.info.Version)) + "}"
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
