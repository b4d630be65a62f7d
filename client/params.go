package client

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// marshal returns params as JSON; nil: none. What is JSON already stays as it is, and is only checked.
func marshal(params any) (json.RawMessage, error) {
	switch p := params.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return checked(p)
	case []byte: // would become a string, which params never are
		return checked(p)
	case *json.RawMessage:
		if p == nil {
			return nil, nil
		}
		return checked(*p)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("client: params: %w", err)
	}
	if string(raw) == "null" { // a nil map, for example
		return nil, nil
	}
	return raw, nil
}

func checked(params json.RawMessage) (json.RawMessage, error) {
	if len(params) > 0 && !jsonrpc.Valid(params) {
		return nil, errors.New("client: params: not valid JSON")
	}
	return params, nil
}

// modernMembers are the members of params.
func modernMembers(params json.RawMessage) (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if len(params) == 0 {
		return members, nil
	}
	if err := json.Unmarshal(params, &members); err != nil || members == nil {
		return nil, errors.New("client: params: not an object")
	}
	return members, nil
}
