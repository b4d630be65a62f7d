package client

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// The formats of tokens: one for each era.
const (
	formatStream = 1
	formatTask   = 2
)

// token is what another process needs to continue a call.
type token struct {
	Format  int    `json:"f"`
	Session string `json:"s,omitempty"`
	Version string `json:"v"`
	ID      string `json:"i"`           // of the request, as JSON
	Task    string `json:"t,omitempty"` // of formatTask only
	Cursor  string `json:"c"`           // the last event id; of a task, a mark of its last message
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
	case t.Format != formatStream && t.Format != formatTask:
		return token{}, fmt.Errorf("%w: format %d", ErrToken, t.Format)
	case strings.Trim(t.ID, "0123456789") != "" || t.ID == "" || !sendable(t.Cursor) || !sendable(t.Session) || !sendable(t.Version):
		return token{}, ErrToken
	case t.Format == formatStream && (t.Cursor == "" || t.Task != "" || t.Version == modernVersion):
		return token{}, ErrToken
	case t.Format == formatTask && (!isTaskID(t.Task) || t.Session != "" || t.Version != modernVersion):
		return token{}, ErrToken
	}
	return t, nil
}
