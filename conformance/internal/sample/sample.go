// Package sample has the content that every fixture shows to the suite.
package sample

import (
	"encoding/base64"
	"encoding/json"
)

const (
	// PNG is a red pixel, in base64.
	PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
	// WAV is a millisecond of silence, in base64.
	WAV = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="
)

// Words are the completions for each argument of each prompt.
var Words = []string{"paris", "park", "party", "test", "testing"}

type object = map[string]any

// Form is the schema of a form for the user.
func Form(properties map[string]any, required ...string) map[string]any {
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// Contact asks for a name and an address.
var Contact = Form(object{
	"username": object{"type": "string", "description": "The user's name"},
	"email":    object{"type": "string", "description": "The user's address"},
}, "username", "email")

// Defaults has a default in each kind of field (SEP-1034).
var Defaults = Form(object{
	"name":     object{"type": "string", "default": "John Doe"},
	"age":      object{"type": "integer", "default": 30},
	"score":    object{"type": "number", "default": 95.5},
	"status":   object{"type": "string", "enum": []string{"active", "inactive", "pending"}, "default": "active"},
	"verified": object{"type": "boolean", "default": true},
})

// Enums has each kind of choice (SEP-1330).
var Enums = Form(object{
	"untitledSingle": object{"type": "string", "enum": plain},
	"titledSingle":   object{"type": "string", "oneOf": titled},
	"legacyEnum": object{
		"type": "string", "enum": plain, "enumNames": []string{"Option One", "Option Two", "Option Three"},
	},
	"untitledMulti": object{"type": "array", "items": object{"type": "string", "enum": plain}},
	"titledMulti":   object{"type": "array", "items": object{"anyOf": titled}},
})

var (
	plain  = []string{"option1", "option2", "option3"}
	titled = []object{
		{"const": "value1", "title": "First Option"},
		{"const": "value2", "title": "Second Option"},
		{"const": "value3", "title": "Third Option"},
	}
)

// Schema2020 uses keywords that only JSON Schema 2020-12 has (SEP-1613, SEP-2106). The suite looks for it in tools/list.
var Schema2020 = json.RawMessage(`{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {
		"address": {
			"$anchor": "addressDef",
			"type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}
	},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`)

// SchemaHeader has an argument that is mirrored into the header Mcp-Param-Region (SEP-2243).
var SchemaHeader = json.RawMessage(`{
	"type": "object",
	"properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "level": {"type": "integer"}}
}`)

// SchemaCompute has the arguments of slow_compute.
var SchemaCompute = json.RawMessage(`{
	"type": "object",
	"properties": {"seconds": {"type": "number", "minimum": 0}, "label": {"type": "string"}},
	"required": ["seconds"]
}`)

// Bytes decodes PNG or WAV.
func Bytes(encoded string) []byte {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		panic(err) // they are valid
	}
	return data
}
