package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

func addResources(s *mcp.Server) {
	add := func(uri, name, mime string, contents mcp.ResourceContents) {
		contents.URI, contents.MIMEType = uri, mime
		s.AddResource(&mcp.Resource{URI: uri, Name: name, Description: name + " for testing", MIMEType: mime},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&contents}}, nil
			})
	}
	add("test://static-text", "Static text", "text/plain", mcp.ResourceContents{Text: "This is the content of the static text resource."})
	add("test://static-binary", "Static image", "image/png", mcp.ResourceContents{Blob: sample.Bytes(sample.PNG)})
	add("test://watched-resource", "Watched text", "text/plain", mcp.ResourceContents{Text: "This resource can be subscribed to."})
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: "test://template/{id}/data", Name: "Data of an id", Description: "Data of an id for testing", MIMEType: "application/json",
	}, readTemplate)
}

func readTemplate(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
		URI: req.Params.URI, MIMEType: "application/json", Text: fmt.Sprintf(`{"id": %q, "data": "Data for ID: %[1]s"}`, id),
	}}}, nil
}
