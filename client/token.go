package client

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// token is what another process needs to continue a call.
type token struct {
	Format  int    `json:"f"`
	Session string `json:"s,omitempty"`
	Version string `json:"v"`
	ID      string `json:"i"` // of the request, as JSON
	Cursor  string `json:"c"`
}

func (t token) String() string {
	raw, _ := json.Marshal(t) //nolint:errchkjson // strings cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseToken(text string) (token, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var t token
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	switch {
	case err != nil:
		return token{}, fmt.Errorf("%w: %w", ErrToken, err)
	case t.Format != 1:
		return token{}, fmt.Errorf("%w: format %d", ErrToken, t.Format)
	case t.Cursor == "" || strings.Trim(t.ID, "0123456789") != "" || t.ID == "" || !sendable(t.Cursor) || !sendable(t.Session) || !sendable(t.Version):
		return token{}, ErrToken
	}
	return t, nil
}
