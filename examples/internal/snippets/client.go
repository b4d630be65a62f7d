package snippets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"

	"golang.org/x/oauth2"

	"github.com/rejoin-mcp/rejoin/client"
)

// Client calls a tool and reads its messages and its result.
func Client(ctx context.Context, save func(token string)) error {
	var result json.RawMessage
	s, err := client.Connect(ctx, "https://example.com/mcp", client.Config{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	call, err := s.Start(ctx, "tools/call", map[string]any{"name": "slow"})
	if err != nil {
		return err
	}
	for m := range call.Messages() { // progress and other messages, each once, even when connections break
		fmt.Println(m.Method, string(m.Params))
		save(call.Token()) // a secret; client.Resume continues the call with it, also in another process
	}
	err = call.Wait(ctx, &result)
	return err
}

// Resume continues a call.
func Resume(ctx context.Context, url, token string) (json.RawMessage, error) {
	var result json.RawMessage
	call, err := client.Resume(ctx, url, token, client.Config{})
	if err != nil {
		return nil, err // not a token
	}
	err = call.Wait(ctx, &result)
	if errors.Is(err, client.ErrExpired) || errors.Is(err, client.ErrSessionGone) {
		return nil, fmt.Errorf("too late: what the call did is not known: %w", err)
	}
	return result, err
}

// Configs are configurations of a client.
func Configs(ctx context.Context, source oauth2.TokenSource, transport http.RoundTripper) []client.Config {
	authorized := client.Config{HTTP: oauth2.NewClient(ctx, source)}
	own := client.Config{HTTP: &http.Client{Transport: transport}}
	traced := client.Config{Trace: func(e client.TraceEvent) {
		log.Println(e.Kind, e.Stream, e.Method, e.Status, e.Wait, e.Err) // without e.EventID, a secret
	}}
	return []client.Config{authorized, own, traced}
}
