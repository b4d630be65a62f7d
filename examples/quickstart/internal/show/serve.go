package show

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"strings"

	"github.com/rejoin-mcp/rejoin"
)

const hint = `rejoin quickstart: an MCP server with one tool, long_job, at

  URL

Look at it with the MCP inspector:

  npx @modelcontextprotocol/inspector --cli URL \
    --transport http --method tools/list

Or by hand. Open a session, and put the Mcp-Session-Id of the answer into S:

  curl -i URL -H 'Content-Type: application/json' \
    -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
         "capabilities":{},"clientInfo":{"name":"curl","version":"8"}}}'

Call the tool, which sends you away after three steps, and put the last event id into ID:

  curl URL -H "Mcp-Session-Id: $S" -H 'Content-Type: application/json' \
    -d '{"jsonrpc":"2.0","id":2,"method":"tools/call",
         "params":{"name":"long_job","_meta":{"progressToken":1}}}'

Come back for the rest:

  curl URL -H "Mcp-Session-Id: $S" -H "Last-Event-ID: $ID"

Ctrl-C ends it.

`

// serve keeps the server up until ctx ends.
func serve(ctx context.Context, ln net.Listener, mount Mount, w io.Writer) error {
	says := log.New(w, "", log.Ltime)
	srv, handler, err := newServer(mount, func(ctx context.Context, step int) error {
		if err := pause(ctx, pace); err != nil {
			return err
		}
		if rejoin.HandleFromContext(ctx).Connected() {
			says.Printf("tool: step %d", step)
		} else {
			says.Printf("tool: step %d while nobody was connected", step)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprint(w, strings.ReplaceAll(hint, "URL", "http://"+ln.Addr().String()+"/mcp"))
	hosting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() {
		says.Printf("ending: up to %v for clients to fetch what they are owed (Ctrl-C again: at once)", patience)
		stop()
	})
	return host(hosting, ln, handler, srv)
}
