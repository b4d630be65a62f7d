package main

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// prompt is one prompt. All its arguments are required.
type prompt struct {
	name        string
	description string
	arguments   []string
	get         mcp.PromptHandler
}

func addPrompts(s *mcp.Server) {
	for _, p := range prompts {
		p.add(s)
	}
}

func (p prompt) add(s *mcp.Server) {
	listed := &mcp.Prompt{Name: p.name, Description: p.description}
	for _, name := range p.arguments {
		listed.Arguments = append(listed.Arguments, &mcp.PromptArgument{Name: name, Description: name + " of the prompt", Required: true})
	}
	s.AddPrompt(listed, p.get)
}

var prompts = []prompt{
	{"test_simple_prompt", "A prompt without arguments.", nil, messages(func(map[string]string) []*mcp.PromptMessage {
		return user(text("This is a simple prompt for testing."))
	})},
	{"test_prompt_with_arguments", "A prompt with two arguments.", []string{"arg1", "arg2"}, messages(func(args map[string]string) []*mcp.PromptMessage {
		return user(text(fmt.Sprintf("Prompt with arguments: arg1=%q, arg2=%q", args["arg1"], args["arg2"])))
	})},
	{"test_prompt_with_embedded_resource", "A prompt with a resource in it.", []string{"resourceUri"}, messages(func(args map[string]string) []*mcp.PromptMessage {
		return user(textResource(args["resourceUri"], "This is the resource."), text("Please look at the resource above."))
	})},
	{"test_prompt_with_image", "A prompt with an image in it.", nil, messages(func(map[string]string) []*mcp.PromptMessage {
		return user(image(), text("Please look at the image above."))
	})},
	{"test_input_required_result_prompt", "A prompt that asks the user first.", nil, askContext},
}

func messages(of func(args map[string]string) []*mcp.PromptMessage) mcp.PromptHandler {
	return func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: of(req.Params.Arguments)}, nil
	}
}

func user(blocks ...mcp.Content) (list []*mcp.PromptMessage) {
	for _, c := range blocks {
		list = append(list, &mcp.PromptMessage{Role: "user", Content: c})
	}
	return list
}
