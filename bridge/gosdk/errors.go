package gosdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// readable is an error whose data clients can decode. The SDK's own for a resource that is not found quotes the URI as Go does, which is no JSON
// where it has control characters. What else is no JSON becomes a string of it.
func readable(err error) error {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || len(e.Data) == 0 || json.Valid(e.Data) {
		return err
	}
	var data any = string(e.Data)
	if quoted, ok := bytes.CutPrefix(e.Data, []byte(`{"uri":`)); ok {
		if uri, err := strconv.Unquote(string(bytes.TrimSuffix(quoted, []byte("}")))); err == nil {
			data = map[string]string{"uri": uri}
		}
	}
	raw, _ := json.Marshal(data) //nolint:errchkjson // strings cannot fail
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: raw}
}
