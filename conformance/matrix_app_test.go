//go:build node

package conformance_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/rejoin-mcp/rejoin"
)

// listedApp is a server of rejoin's own with the tools. Unlike newApp it lists them: most clients that people run call nothing that is
// not listed.
func listedApp(list tools) rejoin.App {
	var listed []map[string]any
	for _, name := range slices.Sorted(maps.Keys(list)) {
		listed = append(listed, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}})
	}
	info := rejoin.Info{Name: "interop", Version: "1", Capabilities: map[string]any{"tools": struct{}{}, "logging": struct{}{}}}
	return rejoin.NewApp(info, func(ctx context.Context, r *rejoin.Request) (any, error) {
		switch r.Method {
		case "tools/list":
			return map[string]any{"tools": listed}, nil
		case "logging/setLevel":
			return struct{}{}, nil
		}
		var params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := r.Bind(&params); err != nil {
			return nil, err
		}
		call, ok := list[params.Name]
		if r.Method != "tools/call" || !ok {
			return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "no such tool or method")
		}
		text, err := call(ctx, rejoin.HandleFromContext(ctx), params.Arguments)
		if err != nil {
			return nil, err
		}
		return map[string]any{"content": []map[string]any{{"type": "text", "text": text}}}, nil
	})
}
