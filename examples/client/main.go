// Command client calls a tool of a server that wants an access token (OAuth 2.0, client credentials), and polls.
//
//	CLIENT_SECRET=… go run ./examples/client -id me -token-url https://auth.example/token https://mcp.example/mcp long_job
//
// The access token is fetched when it is needed, and again when it expires, also during a long call: each poll has a valid one. With -resume
// it continues a call that was interrupted (Ctrl-C).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/oauth2/clientcredentials"

	"github.com/rejoin-mcp/rejoin/client"
)

func main() {
	auth := clientcredentials.Config{ClientSecret: os.Getenv("CLIENT_SECRET")}
	flag.StringVar(&auth.ClientID, "id", "", "the client's id, at the authorization server")
	flag.StringVar(&auth.TokenURL, "token-url", "", "where access tokens come from")
	token := flag.String("resume", "", "the token of a call that was left, a secret")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *token != "" && flag.NArg() == 1:
		err = resume(ctx, &auth, flag.Arg(0), *token, os.Stdout)
	case *token == "" && flag.NArg() == 2:
		err = call(ctx, &auth, flag.Arg(0), flag.Arg(1), os.Stdout)
	default:
		err = errors.New("usage: client [flags] URL TOOL, or client -resume TOKEN [flags] URL")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing needs the deferred stop any more
	}
}

// call calls a tool. When ctx ends, the client leaves the call, which goes on at the server.
func call(ctx context.Context, auth *clientcredentials.Config, url, tool string, w io.Writer) error {
	background := context.WithoutCancel(ctx)
	s, err := client.Connect(ctx, url, client.Config{HTTP: auth.Client(background)})
	if err != nil {
		return err
	}
	c, err := s.Start(background, "tools/call", map[string]any{
		"name":  tool,
		"_meta": map[string]any{"progressToken": 1},
	})
	if err != nil {
		return err
	}
	err = follow(ctx, c, w)
	if errors.Is(err, client.ErrLeft) {
		s.Leave()
		return err
	}
	return errors.Join(err, s.Close(background))
}

// resume continues a call that was left.
func resume(ctx context.Context, auth *clientcredentials.Config, url, token string, w io.Writer) error {
	background := context.WithoutCancel(ctx)
	c, err := client.Resume(background, url, token, client.Config{HTTP: auth.Client(background)})
	if err != nil {
		return err
	}
	return follow(ctx, c, w)
}

// follow prints the messages of a call and its result, or the token to resume it with.
func follow(ctx context.Context, c *client.Call, w io.Writer) error {
	defer context.AfterFunc(ctx, func() { c.Leave() })()
	for m := range c.Messages() {
		fmt.Fprintf(w, "%s %s\n", m.Method, m.Params)
	}
	var result json.RawMessage
	err := c.Wait(context.WithoutCancel(ctx), &result)
	switch {
	case err == nil:
		fmt.Fprintf(w, "%s\n", result)
	case errors.Is(err, client.ErrLeft):
		fmt.Fprintf(w, "-resume %s\n", c.Token())
	}
	return err
}
