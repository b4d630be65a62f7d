package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

func (f *fixture) addResources() {
	add := func(uri, name, mime string, contents mcp.ResourceContents) {
		f.s.AddResource(mcp.NewResource(uri, name, mcp.WithResourceDescription(name+" for testing"), mcp.WithMIMEType(mime)),
			func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{contents}, nil
			})
	}
	const static, binary, watched = "test://static-text", "test://static-binary", "test://watched-resource"
	add(static, "Static text", "text/plain",
		mcp.TextResourceContents{URI: static, MIMEType: "text/plain", Text: "This is the content of the static text resource."})
	add(binary, "Static image", "image/png",
		mcp.BlobResourceContents{URI: binary, MIMEType: "image/png", Blob: sample.PNG})
	add(watched, "Watched text", "text/plain",
		mcp.TextResourceContents{URI: watched, MIMEType: "text/plain", Text: "This resource can be subscribed to."})
	f.s.AddResourceTemplate(mcp.NewResourceTemplate("test://template/{id}/data", "Data of an id",
		mcp.WithTemplateDescription("Data of an id for testing"), mcp.WithTemplateMIMEType("application/json")), readTemplate)
}

func readTemplate(_ context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
	return []mcp.ResourceContents{mcp.TextResourceContents{
		URI: req.Params.URI, MIMEType: "application/json", Text: fmt.Sprintf(`{"id": %q, "data": "Data for ID: %[1]s"}`, id),
	}}, nil
}
