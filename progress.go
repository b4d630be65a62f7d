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

// progressToken is what the client wants progress to be named by, as it wrote it; nil: it wants none, or has named it by what is no token. A
// token is a string or a number (basic/utilities/progress, 2025-11-25), here of at most a kilobyte: it is repeated in each event.
func (c *Call) progressToken() []byte {
	if t := c.token.Load(); t != nil {
		return *t
	}
	token, _ := jsonrpc.Field(c.msg.Params, "_meta", "progressToken")
	if !jsonrpc.IsID(token) || len(token) > maxIDBytes {
		token = nil
	}
	c.token.Store(&token)
	return token
}

// ownToken puts the client's own spelling in place of the token that a notification of progress has: SDKs round numbers, and escape in their
// own way. The call that it is sent in comes first, then all others of the session that run. Not ok: it has a token that is none, so that
// nobody waits for it.
func (s *Session) ownToken(c *Call, params json.RawMessage) (_ json.RawMessage, ok bool) {
	from, to, has := jsonrpc.Find(params, "progressToken")
	if !has {
		return params, true
	}
	sent := params[from:to]
	if !jsonrpc.IsID(sent) || len(sent) > maxSpellingBytes || len(jsonrpc.Key(sent)) > maxIDBytes {
		return nil, false
	}
	own := []byte(nil)
	if c != nil {
		own = c.progressToken()
	}
	if !sameToken(own, sent) {
		own = s.tokenLike(sent)
	}
	if own == nil || bytes.Equal(own, sent) {
		return params, true
	}
	return slices.Concat(params[:from], own, params[to:]), true
}

// tokenLike is the token of a running call that may have become what was sent; nil: there is none.
func (s *Session) tokenLike(sent []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st == nil {
			continue
		}
		for _, c := range st.calls {
			if own := c.progressToken(); sameToken(own, sent) {
				return own
			}
		}
	}
	return nil
}

// sameToken reports whether a library that decodes a client's token into any, and encodes it again, may have made of it what was sent.
func sameToken(own, sent []byte) bool {
	switch {
	case own == nil || (own[0] == '"') != (sent[0] == '"'):
		return false
	case bytes.Equal(jsonrpc.Key(own), jsonrpc.Key(sent)):
		return true
	case own[0] == '"':
		a, aOK := jsonrpc.Unquote(own)
		b, bOK := jsonrpc.Unquote(sent)
		return aOK && bOK && a == b // also where a lone surrogate has become U+FFFD
	}
	a, aErr := strconv.ParseFloat(string(own), 64)
	b, bErr := strconv.ParseFloat(string(sent), 64)
	return aErr == nil && bErr == nil && a == b
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
