//go:build node

package conformance_test

import (
	"context"
	"maps"
	"slices"

	"github.com/rejoin-mcp/rejoin"
)

// listedApp is an app of rejoin's own that runs the tools and lists them. Most clients that people use call only tools that are listed.
func listedApp(list tools) rejoin.App {
	var listed []map[string]any
	for _, name := range slices.Sorted(maps.Keys(list)) {
		listed = append(listed, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}})
	}
	return rejoin.NewApp(appInfo, func(ctx context.Context, r *rejoin.Request) (any, error) {
		switch r.Method {
		case "tools/list":
			return map[string]any{"tools": listed}, nil
		case "logging/setLevel":
			return struct{}{}, nil
		}
		return list.handle(ctx, r)
	})
}
