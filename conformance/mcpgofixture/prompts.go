package main

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// prompt is one prompt. All its arguments are required.
type prompt struct {
	name        string
	description string
	arguments   []string
	get         server.PromptHandlerFunc
}

func (f *fixture) addPrompts() {
	for _, p := range prompts {
		f.addPrompt(p)
	}
}

func (f *fixture) addPrompt(p prompt) {
	options := []mcp.PromptOption{mcp.WithPromptDescription(p.description)}
	for _, name := range p.arguments {
		options = append(options, mcp.WithArgument(name, mcp.ArgumentDescription(name+" of the prompt"), mcp.RequiredArgument()))
	}
	f.s.AddPrompt(mcp.NewPrompt(p.name, options...), p.get)
}

var prompts = []prompt{
	{"test_simple_prompt", "A prompt without arguments.", nil, messages(func(map[string]string) []mcp.PromptMessage {
		return user(text("This is a simple prompt for testing."))
	})},
	{"test_prompt_with_arguments", "A prompt with two arguments.", []string{"arg1", "arg2"}, messages(func(args map[string]string) []mcp.PromptMessage {
		return user(text(fmt.Sprintf("Prompt with arguments: arg1=%q, arg2=%q", args["arg1"], args["arg2"])))
	})},
	{"test_prompt_with_embedded_resource", "A prompt with a resource in it.", []string{"resourceUri"}, messages(func(args map[string]string) []mcp.PromptMessage {
		return user(textResource(args["resourceUri"], "This is the resource."), text("Please look at the resource above."))
	})},
	{"test_prompt_with_image", "A prompt with an image in it.", nil, messages(func(map[string]string) []mcp.PromptMessage {
		return user(image(), text("Please look at the image above."))
	})},
	{"test_input_required_result_prompt", "A prompt that asks the user first.", nil, askContext},
}

func messages(of func(args map[string]string) []mcp.PromptMessage) server.PromptHandlerFunc {
	return func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: of(req.Params.Arguments)}, nil
	}
}

func user(blocks ...mcp.Content) (list []mcp.PromptMessage) {
	for _, c := range blocks {
		list = append(list, mcp.NewPromptMessage(mcp.RoleUser, c))
	}
	return list
}
