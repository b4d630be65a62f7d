package gosdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// decodable returns err with data that is valid JSON. In the SDK's own error for a resource that is not found, the URI is quoted in Go syntax,
// which is invalid JSON if the URI has control characters. Other data that is not JSON becomes a JSON string.
func decodable(err error) error {
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
