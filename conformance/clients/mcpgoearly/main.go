// The client of mcp-go before it had the standalone stream and resumption, controlled line by line by the tests of the conformance module. It
// obeys and prints like the client in ../gosdk.
//
//	client <url>
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		say("failed", "", err.Error())
		os.Exit(1)
	}
	say("ended", "", "")
}

func run(ctx context.Context, url string) error {
	session, err := client.NewStreamableHttpClient(url)
	if err != nil {
		return err
	}
	session.OnNotification(func(n mcp.JSONRPCNotification) {
		if fields := n.Params.AdditionalFields; n.Method == "notifications/progress" {
			say("progress", fmt.Sprint(fields["progressToken"]), fmt.Sprint(fields["progress"]))
		}
	})
	if err := session.Start(ctx); err != nil {
		return err
	}
	initialize := mcp.InitializeRequest{}
	initialize.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	initialize.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1"}
	result, err := session.Initialize(ctx, initialize)
	if err != nil {
		return err
	}
	say("connected", "", result.ProtocolVersion)
	var calls sync.WaitGroup
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		_, name, _ := strings.Cut(lines.Text(), " ")
		calls.Go(func() { call(ctx, session, name) })
	}
	calls.Wait()
	return session.Close()
}

func call(ctx context.Context, session *client.Client, name string) {
	request := mcp.CallToolRequest{}
	request.Params.Name = name
	request.Params.Meta = &mcp.Meta{ProgressToken: name}
	result, err := session.CallTool(ctx, request)
	if err != nil {
		say("error", name, err.Error())
		return
	}
	text, ok := result.Content[0].(mcp.TextContent)
	if !ok || len(result.Content) != 1 {
		say("error", name, "the result is not one text")
		return
	}
	say("result", name, text.Text)
}

var stdout sync.Mutex

func say(kind, of, text string) {
	stdout.Lock()
	defer stdout.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"kind": kind, "of": of, "text": text}); err != nil {
		panic(err) // the test sees that the process ends
	}
}
