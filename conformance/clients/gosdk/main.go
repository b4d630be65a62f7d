// The client of one release of the official Go SDK, controlled line by line by the tests of the conformance module. It is a module of its own,
// with one .mod file for each release, outside the workspace: a workspace can have only one release.
//
//	client [-version <protocol version> | -tasks] <url>
//
// It connects, with the version if one is given (not every release has an option for it). With -tasks it declares the extension for tasks,
// which no release knows. Then it obeys each line of stdin. "call <tool>" starts a call, with the tool's name as the progress token. "answer"
// answers the question that the server has asked. "listen" is for other clients: in the modern era this one subscribes to changes itself. The
// end of stdin ends the session. It prints what it receives, one JSON object a line: {"kind": ..., "of": ..., "text": ...}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	how := &mcp.ClientSessionOptions{}
	options := &mcp.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			say("log", "", fmt.Sprint(r.Params.Data))
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			say("progress", fmt.Sprint(r.Params.ProgressToken), fmt.Sprint(r.Params.Progress))
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { say("changed", "", "") },
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			say("asked", "", r.Params.Message)
			<-answers
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		},
	}
	switch args[0] { // not all releases have these fields
	case "-version":
		reflect.ValueOf(how).Elem().FieldByName("ProtocolVersion").SetString(args[1])
	case "-tasks":
		field := reflect.ValueOf(options).Elem().FieldByName("Capabilities")
		capabilities := reflect.New(field.Type().Elem())
		if err := json.Unmarshal([]byte(`{"extensions": {"io.modelcontextprotocol/tasks": {}}}`), capabilities.Interface()); err != nil {
			return err
		}
		field.Set(capabilities)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, options)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: args[len(args)-1]}, how)
	if err != nil {
		return err
	}
	say("connected", "", session.InitializeResult().ProtocolVersion)
	var calls sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, name, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "answer":
			answers <- struct{}{}
		case "call":
			calls.Go(func() { call(ctx, session, name) })
		case "listen": // the SDK does that itself
		}
	}
	calls.Wait()
	return session.Close()
}

func call(ctx context.Context, session *mcp.ClientSession, name string) {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Meta: mcp.Meta{"progressToken": name}})
	if err != nil {
		say("error", name, err.Error())
		return
	}
	var texts strings.Builder
	for _, c := range result.Content {
		text, ok := c.(*mcp.TextContent)
		if !ok {
			say("error", name, "the result is not text")
			return
		}
		texts.WriteString(text.Text)
	}
	say("result", name, texts.String())
}

var stdout sync.Mutex

func say(kind, of, text string) {
	stdout.Lock()
	defer stdout.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"kind": kind, "of": of, "text": text}); err != nil {
		panic(err) // the test sees that the process ends
	}
}
