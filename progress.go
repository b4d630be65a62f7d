package rejoin

import (
	"fmt"
	"math"
	"strconv"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// progressToken is what the client wants progress to be named by, as it wrote it; nil: it wants none.
func (c *Call) progressToken() []byte {
	if t := c.token.Load(); t != nil {
		return *t
	}
	token, _ := jsonrpc.Field(c.msg.Params, "_meta", "progressToken")
	c.token.Store(&token)
	return token
}

// appendProgress appends a notifications/progress. They come in bursts, and all alike, so they are written by hand. A total of 0 and an
// empty message are left out.
func appendProgress(dst, token []byte, done, total float64, message string) ([]byte, error) {
	for _, n := range [...]float64{done, total} {
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, fmt.Errorf("rejoin: params: progress of %v: JSON has no such number", n)
		}
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`...), token...)
	dst = appendNumber(append(dst, `,"progress":`...), done)
	if total != 0 {
		dst = appendNumber(append(dst, `,"total":`...), total)
	}
	if message != "" {
		dst = jsonrpc.AppendString(append(dst, `,"message":`...), message)
	}
	return append(dst, "}}"...), nil
}

// appendNumber appends a number in the shortest form that JSON and its readers know.
func appendNumber(dst []byte, n float64) []byte {
	if i := int64(n); float64(i) == n && i > -1<<53 && i < 1<<53 {
		return strconv.AppendInt(dst, i, 10)
	}
	if size := math.Abs(n); size >= 1e21 || size < 1e-6 {
		return strconv.AppendFloat(dst, n, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, n, 'f', -1, 64)
}
