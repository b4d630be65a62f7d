package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/rejoin-mcp/rejoin/client"
)

// tools lists the tools of a server.
func (a *app) tools(ctx context.Context, cfg client.Config, url string) error {
	s, ok := a.connect(ctx, url, cfg)
	if !ok {
		return nil
	}
	defer a.end(ctx, s)
	params := map[string]string{}
	for {
		var page struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := s.Do(ctx, "tools/list", params, &page); err != nil {
			a.stopped(ctx, err)
			return nil
		}
		a.out.tools(page.Tools)
		switch page.NextCursor {
		case "":
			return nil
		case params["cursor"]:
			a.noAnswer(errors.New("the server's list of tools does not end"))
			return nil
		}
		params["cursor"] = page.NextCursor
	}
}

// tools prints a page of the list: for each tool its name and the first line of its description.
func (p *printer) tools(tools []json.RawMessage) {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, raw := range tools {
		var tool struct {
			Name        string `json:"name"`
			Title       string `json:"title"`
			Description string `json:"description"`
		}
		if p.json {
			p.record(record{Type: "tool", Tool: raw})
			continue
		}
		if json.Unmarshal(raw, &tool) != nil {
			tool.Name = string(raw)
		}
		line, _, _ := strings.Cut(strings.TrimSpace(tool.Description), "\n")
		if line == "" {
			line = tool.Title
		}
		fmt.Fprintln(table, printable(tool.Name)+"\t"+printable(line))
	}
	_ = table.Flush() // if stdout is gone, nothing can be printed
}

// listen prints the notifications of the standalone stream.
func (a *app) listen(ctx context.Context, cfg client.Config, url string) error {
	s, ok := a.connect(ctx, url, cfg)
	if !ok {
		return nil
	}
	defer a.end(ctx, s)
	for m, err := range s.Listen(ctx) {
		if err != nil {
			a.noAnswer(err)
			return nil
		}
		if a.out.json {
			a.out.message(m)
		} else {
			a.out.text(strings.TrimSpace(m.Method + " " + string(m.Params)))
		}
	}
	return nil
}
