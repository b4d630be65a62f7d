package gosdk

import (
	"context"
	"net/http"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/bridge/internal/faithful"
)

// One source supports all versions of the SDK: the bridge finds out at run time what a version has. The package documentation says what is lost
// without it.

// setField sets a field of a struct. It reports whether there is a field of that name and type.
func setField[S, V any](s *S, name string, v V) bool {
	f := reflect.ValueOf(s).Elem().FieldByName(name)
	if !f.IsValid() || !f.CanSet() || f.Type() != reflect.TypeFor[V]() {
		return false
	}
	f.Set(reflect.ValueOf(v))
	return true
}

// newModern returns the SDK's own handler of the modern era; nil if the SDK has none in which a disconnect cancels the request, as that era
// requires.
func newModern(choose func(*http.Request) *mcp.Server) http.Handler {
	opts := &mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true} // rejoin checks the host
	if !setField(opts, "PropagateRequestCancellation", true) {
		return nil
	}
	setField(opts, "MaxRequestBodyBytes", int64(-1)) // rejoin has its own limit
	sdk := mcp.NewStreamableHTTPHandler(choose, opts)
	return faithful.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sdk.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), modernKey{}, r.Context())))
	}))
}

// setVersion sets the negotiated version of a restored session. If the SDK has no field for it, it replaces the requested version.
func setVersion(st *mcp.ServerSessionState, version string) {
	if !setField(st, "NegotiatedProtocolVersion", version) && version != "" {
		st.InitializeParams.ProtocolVersion = version
	}
}

// probeIDKey finds the key under which the SDK stores a request's id in its contexts. The SDK's own transport looks it up to route a message.
// Nil: not found.
func probeIDKey() (key any) {
	defer func() { _ = recover() }() // an unknown version of the SDK may panic
	t := &mcp.StreamableServerTransport{SessionID: "probe"}
	conn, err := t.Connect(context.Background())
	if err != nil {
		return nil
	}
	defer conn.Close()
	ctx := &keyRecorder{Context: context.Background()}
	_ = conn.Write(ctx, &jsonrpc.Request{Method: "notifications/message"}) // its result does not matter
	return ctx.key
}

// keyRecorder is a context that records the key of the id when it is looked up.
type keyRecorder struct {
	context.Context
	key any
}

func (r *keyRecorder) Value(key any) any {
	if t := reflect.TypeOf(key); t.PkgPath() == reflect.TypeFor[mcp.Server]().PkgPath() && t.Name() == "idContextKey" {
		r.key = key
	}
	return r.Context.Value(key)
}
