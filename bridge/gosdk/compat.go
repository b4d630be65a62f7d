package gosdk

import (
	"context"
	"net/http"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/bridge/internal/faithful"
)

// What the SDK's versions do not have in common is found out at run time, so that one source fits them all. The package's
// documentation says what is lost where something is missing.

// setField sets a field of a struct, if there is one of that name and type.
func setField[S, V any](s *S, name string, v V) bool {
	f := reflect.ValueOf(s).Elem().FieldByName(name)
	if !f.IsValid() || !f.CanSet() || f.Type() != reflect.TypeFor[V]() {
		return false
	}
	f.Set(reflect.ValueOf(v))
	return true
}

// newModern is the SDK's own handler of the modern era. Nil: the SDK has none in which a disconnect cancels, as that era demands.
func newModern(choose func(*http.Request) *mcp.Server) http.Handler {
	opts := &mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true} // rejoin has checked
	if !setField(opts, "PropagateRequestCancellation", true) {
		return nil
	}
	setField(opts, "MaxRequestBodyBytes", int64(-1)) // rejoin has its own limit
	return faithful.Handler(mcp.NewStreamableHTTPHandler(choose, opts))
}

// setVersion gives a restored session its negotiated version: where the SDK keeps no such thing, in place of what was asked for.
func setVersion(st *mcp.ServerSessionState, version string) {
	if !setField(st, "NegotiatedProtocolVersion", version) && version != "" {
		st.InitializeParams.ProtocolVersion = version
	}
}

// probeIDKey finds the key of the request's id in the SDK's contexts, which its own transport asks for in order to route what is
// sent. Nil: it did not.
func probeIDKey() (key any) {
	defer func() { _ = recover() }() // a version of the SDK that we do not know
	t := &mcp.StreamableServerTransport{SessionID: "probe"}
	conn, err := t.Connect(context.Background())
	if err != nil {
		return nil
	}
	defer conn.Close()
	ctx := &keySpy{Context: context.Background()}
	_ = conn.Write(ctx, &jsonrpc.Request{Method: "notifications/message"}) // nobody listens
	return ctx.key
}

// keySpy is a context that remembers the key it was asked for.
type keySpy struct {
	context.Context
	key any
}

func (s *keySpy) Value(key any) any {
	if t := reflect.TypeOf(key); t.PkgPath() == reflect.TypeFor[mcp.Server]().PkgPath() && t.Name() == "idContextKey" {
		s.key = key
	}
	return s.Context.Value(key)
}
