package main

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

func text(s string) mcp.Content { return &mcp.TextContent{Text: s} }

func image() mcp.Content {
	return &mcp.ImageContent{Data: sample.Bytes(sample.PNG), MIMEType: "image/png"}
}

func textResource(uri, s string) mcp.Content {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: s}}
}

// content is the result of a tool.
func content(blocks ...mcp.Content) *mcp.CallToolResult { return &mcp.CallToolResult{Content: blocks} }

// failed is the result of a tool that failed. The model gets the message.
func failed(err error) *mcp.CallToolResult {
	var result mcp.CallToolResult
	result.SetError(err)
	return &result
}

func simpleText(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return content(text("This is a simple text response for testing.")), nil
}

func imageContent(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return content(image()), nil
}

func audioContent(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return content(&mcp.AudioContent{Data: sample.Bytes(sample.WAV), MIMEType: "audio/wav"}), nil
}

func embeddedResource(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return content(textResource("test://embedded-resource", "This is an embedded resource.")), nil
}

func mixedContent(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return content(
		text("Text, an image and a resource:"),
		image(),
		textResource("test://mixed-content-resource", "This is the resource."),
	), nil
}

func alwaysFails(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return failed(errors.New("this tool always fails")), nil
}
