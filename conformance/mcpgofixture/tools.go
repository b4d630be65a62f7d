package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// tool is one tool. An error of its handler is a JSON-RPC error.
type tool struct {
	name        string
	description string
	schema      string // of the arguments; empty: there are none
	call        server.ToolHandlerFunc
}

func (f *fixture) addTools() {
	for _, t := range f.tools() {
		f.addTool(t)
	}
}

func (f *fixture) addTool(t tool) {
	if t.schema == "" {
		t.schema = `{"type": "object"}`
	}
	f.s.AddTool(mcp.NewToolWithRawSchema(t.name, t.description, json.RawMessage(t.schema)), t.call)
}

// oneString is the schema of a tool's only argument.
func oneString(name string) string {
	return fmt.Sprintf(`{"type": "object", "properties": {%q: {"type": "string"}}, "required": [%[1]q]}`, name)
}

func (f *fixture) tools() []tool {
	return []tool{
		{"test_simple_text", "Answers with text.", "", simpleText},
		{"test_image_content", "Answers with an image.", "", imageContent},
		{"test_audio_content", "Answers with sound.", "", audioContent},
		{"test_embedded_resource", "Answers with a resource.", "", embeddedResource},
		{"test_multiple_content_types", "Answers with text, an image and a resource.", "", mixedContent},
		{"test_error_handling", "Always fails.", "", alwaysFails},
		{"test_tool_with_logging", "Logs three times while it runs.", "", f.withLogging},
		{"test_tool_with_progress", "Reports progress three times while it runs.", "", f.withProgress},
		{"test_reconnection", "Closes its stream and answers when the client has had to come back.", "", reconnection},
		{"test_sampling", "Asks the client's model.", oneString("prompt"), f.sampling},
		{"test_elicitation", "Asks the user.", oneString("message"), f.elicitation},
		{"test_elicitation_sep1034_defaults", "Asks the user, with a default for each kind of field.", "", f.elicitDefaults},
		{"test_elicitation_sep1330_enums", "Asks the user, with each kind of choice.", "", f.elicitEnums},
		{"json_schema_2020_12_tool", "Has arguments that need JSON Schema 2020-12.", string(sample.Schema2020), simpleText},

		// Those of 2026-07-28.
		{"test_x_mcp_header", "Has an argument that is mirrored into a header.", string(sample.SchemaHeader), simpleText},
		{"test_missing_capability", "Needs a client that can sample.", "", missingCapability},
		{"test_streaming_elicitation", "Answers where older versions would ask the user.", "", simpleText},
		{"test_logging_tool", "Logs once.", "", f.logging},
		{"test_input_required_result_elicitation", "Asks for the user's name.", "", askName},
		{"test_input_required_result_sampling", "Asks the client's model.", "", askModel},
		{"test_input_required_result_list_roots", "Asks for the client's roots.", "", askRoots},
		{"test_input_required_result_request_state", "Asks for a confirmation, and for its state back.", "", askConfirmation},
		{"test_input_required_result_multiple_inputs", "Asks for everything at once.", "", askAll},
		{"test_input_required_result_multi_round", "Asks twice.", "", askTwice},
		{"test_input_required_result_tampered_state", "Refuses a state that it did not make.", "", askConfirmation},
		{"test_input_required_result_capabilities", "Asks for no more than the client can do.", "", askCapable},
		{"test_trigger_tool_change", "Tells that the tools have changed.", "", f.changeTools},
		{"test_trigger_prompt_change", "Tells that the prompts have changed.", "", f.changePrompts},

		// Those that take long.
		{"greet", "Greets.", oneString("name"), greet},
		{"slow_compute", "Works for some seconds.", string(sample.SchemaCompute), slowCompute},
		{"failing_job", "Works, and fails.", "", failingJob},
		{"protocol_error_job", "Works, and ends with a JSON-RPC error.", "", protocolErrorJob},
		{"confirm_delete", "Works, and asks for a confirmation.", oneString("filename"), confirmDelete},
		{"multi_input", "Works, and asks two questions.", "", multiInput},
		{"test_tool_with_task", "Asks for the user's name, and works.", "", nameThenWork},
	}
}

func (f *fixture) changeTools(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	f.addTool(f.tools()[0]) // mcp-go sends the notification although nothing changes
	return content(text("The tools have changed.")), nil
}

func (f *fixture) changePrompts(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	f.addPrompt(prompts[0])
	return content(text("The prompts have changed.")), nil
}
