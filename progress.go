package rejoin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// progressToken returns the client's progress token as the client wrote it; nil: it wants no progress, or what it sent is not a token. A token
// is a string or a number (basic/utilities/progress, 2025-11-25), here of at most 1 KiB, because each event repeats it.
func (c *Call) progressToken() []byte {
	if t := c.token.Load(); t != nil {
		return *t
	}
	token := progressTokenOf(c.msg.Params)
	c.token.Store(&token)
	return token
}

func progressTokenOf(params []byte) []byte {
	token, _ := jsonrpc.Field(params, "_meta", "progressToken")
	if !jsonrpc.IsID(token) || len(token) > maxIDBytes {
		return nil
	}
	return token
}

// restoreToken replaces the token in the params of a progress notification by the same token as the client wrote it. SDKs may have rounded a
// number or escaped a string in another way. It looks at the tokens of c first, then of all running calls of the session. ok is false if the
// params have what is not a token: no client waits for that.
func (s *Session) restoreToken(c *Call, params json.RawMessage) (_ json.RawMessage, ok bool) {
	from, to, has := jsonrpc.Find(params, "progressToken")
	if !has {
		return params, true
	}
	sent := params[from:to]
	if !jsonrpc.IsID(sent) || len(sent) > maxEscapedIDBytes || len(jsonrpc.Key(sent)) > maxIDBytes {
		return nil, false
	}
	own := []byte(nil)
	if c != nil {
		own = c.progressToken()
	}
	if !sameToken(own, sent) {
		own = s.matchingToken(sent)
	}
	if own == nil || bytes.Equal(own, sent) {
		return params, true
	}
	return slices.Concat(params[:from], own, params[to:]), true
}

// matchingToken returns the token of a running call that an SDK may have turned into sent, or nil.
func (s *Session) matchingToken(sent []byte) []byte {
	for _, running := range s.engine.Running() {
		if own := (*Call)(running.(*tool)).progressToken(); sameToken(own, sent) { //nolint:forcetypeassert // there is no other engine.Tool
			return own
		}
	}
	return nil
}

// sameToken reports whether a library that decodes the client's token into an any and encodes it again may get sent.
func sameToken(own, sent []byte) bool {
	switch {
	case own == nil || (own[0] == '"') != (sent[0] == '"'):
		return false
	case bytes.Equal(jsonrpc.Key(own), jsonrpc.Key(sent)):
		return true
	case own[0] == '"':
		a, aOK := jsonrpc.Unquote(own)
		b, bOK := jsonrpc.Unquote(sent)
		return aOK && bOK && a == b // also if a lone surrogate has become U+FFFD
	}
	a, aErr := strconv.ParseFloat(string(own), 64)
	b, bErr := strconv.ParseFloat(string(sent), 64)
	return aErr == nil && bErr == nil && a == b
}

// appendProgress appends a notifications/progress. A total of 0 and an empty message are left out. It does not use encoding/json, because
// these notifications come in bursts and are all alike.
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

// appendNumber appends a number in the shortest form that is valid JSON.
func appendNumber(dst []byte, n float64) []byte {
	if i := int64(n); float64(i) == n && i > -1<<53 && i < 1<<53 {
		return strconv.AppendInt(dst, i, 10)
	}
	if size := math.Abs(n); size >= 1e21 || size < 1e-6 {
		return strconv.AppendFloat(dst, n, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, n, 'f', -1, 64)
}
