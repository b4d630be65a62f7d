// The client of mcp-go, controlled line by line by the tests of the conformance module. It is a module of its own, outside the workspace,
// because mcp-go requires a newer Go than rejoin.
//
//	client [-log] [-listen | -legacy | -tasks] <url>
//
// It obeys and prints like the client in ../gosdk. "listen" subscribes to changes, as clients of the modern era do. With -listen it requests
// the standalone stream, for which mcp-go gives up the modern era; with -legacy it uses the legacy era without that stream. With -tasks it
// declares the extension for tasks, which mcp-go does not know. With -log mcp-go logs to stderr, as it does by default.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// answers has room for answers that come before their questions.
var answers = make(chan struct{}, 100)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		say("failed", "", err.Error())
		os.Exit(1)
	}
	say("ended", "", "")
}

func run(ctx context.Context, args []string) error {
	options := []transport.StreamableHTTPCOption{transport.WithHTTPLogger(slog.New(slog.DiscardHandler))}
	if args[0] == "-log" {
		options, args = nil, args[1:]
	}
	about := []client.ClientOption{client.WithElicitationHandler(asker{})}
	initialize := mcp.InitializeRequest{}
	initialize.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1"}
	switch args[0] {
	case "-legacy":
		about = append(about, client.WithProtocolVersion("2025-11-25"))
	case "-tasks":
		initialize.Params.Capabilities.Extensions = map[string]any{"io.modelcontextprotocol/tasks": struct{}{}}
	case "-listen":
		options = append(options, transport.WithContinuousListening()) //nolint:staticcheck // the modern era, which it gives up, is not needed here
	}
	wire, err := transport.NewStreamableHTTP(args[len(args)-1], options...)
	if err != nil {
		return err
	}
	session := client.NewClient(wire, about...)
	session.OnNotification(notified)
	if err := session.Start(ctx); err != nil {
		return err
	}
	result, err := session.Initialize(ctx, initialize)
	if err != nil {
		return err
	}
	say("connected", "", result.ProtocolVersion)
	var calls sync.WaitGroup
	stop := func() {}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, name, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "answer":
			answers <- struct{}{}
		case "listen":
			stop, err = session.ListenAsync(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}, func(err error) { say("trouble", "", err.Error()) })
			if err != nil {
				return err
			}
		default:
			calls.Go(func() { call(ctx, session, name) })
		}
	}
	calls.Wait()
	stop()
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

func notified(n mcp.JSONRPCNotification) {
	fields := n.Params.AdditionalFields
	switch n.Method {
	case "notifications/message":
		say("log", "", fmt.Sprint(fields["data"]))
	case "notifications/tools/list_changed":
		say("changed", "", "")
	case "notifications/progress":
		say("progress", fmt.Sprint(fields["progressToken"]), fmt.Sprint(fields["progress"]))
	}
}

type asker struct{}

func (asker) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	say("asked", "", r.Params.Message)
	<-answers
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"name": "Ann"},
	}}, nil
}

var stdout sync.Mutex

func say(kind, of, text string) {
	stdout.Lock()
	defer stdout.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"kind": kind, "of": of, "text": text}); err != nil {
		panic(err) // the test sees that the process ends
	}
}
