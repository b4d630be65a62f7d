package door

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// ParamHeader is a header field that repeats an argument of a tool: the schema of the argument has an x-mcp-header (SEP-2243).
type ParamHeader struct {
	field string   // its canonical name
	path  []string // of the argument
}

const paramHeaderPrefix = "Mcp-Param-"

// ParamHeaders returns the header fields that the schema of a tool's arguments names. An error says what is wrong with one.
func ParamHeaders(schema []byte) ([]ParamHeader, error) {
	var all []ParamHeader
	err := collectHeaders(schema, nil, &all)
	return all, err
}

func collectHeaders(schema []byte, path []string, all *[]ParamHeader) error {
	var object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if !decodes(schema, &object) {
		return nil // a schema may be a boolean; others are not for this package to judge
	}
	for name, property := range object.Properties {
		at := append(slices.Clip(path), name)
		if err := collectHeader(property, at, all); err != nil {
			return fmt.Errorf("property %q: %w", strings.Join(at, "."), err)
		}
		if err := collectHeaders(property, at, all); err != nil {
			return err
		}
	}
	return nil
}

func collectHeader(property []byte, path []string, all *[]ParamHeader) error {
	var own struct {
		Type   json.RawMessage `json:"type"`
		Header json.RawMessage `json:"x-mcp-header"`
	}
	if !decodes(property, &own) || own.Header == nil {
		return nil
	}
	var name string
	if !decodes(own.Header, &name) || name == "" || strings.ContainsFunc(name, notToken) {
		return fmt.Errorf("x-mcp-header must be the end of a header field's name")
	}
	switch string(own.Type) {
	case `"string"`, `"integer"`, `"boolean"`:
	default:
		return fmt.Errorf("x-mcp-header needs the type string, integer or boolean")
	}
	p := ParamHeader{http.CanonicalHeaderKey(paramHeaderPrefix + name), path}
	if slices.ContainsFunc(*all, func(other ParamHeader) bool { return other.field == p.field }) {
		return fmt.Errorf("x-mcp-header %q comes twice", name)
	}
	*all = append(*all, p)
	return nil
}

func decodes(data []byte, v any) bool { return json.Unmarshal(data, v) == nil }

// notToken reports whether r cannot be in the name of a header field (RFC 9110, 5.6.2).
func notToken(r rune) bool {
	letter := 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80
	return !letter && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// Fault compares the header field with the arguments of a call. It returns what is wrong, or "". Without the argument there must be no value.
func (p ParamHeader) Fault(h http.Header, arguments []byte) string {
	value := arguments
	for _, name := range p.path {
		var object map[string]json.RawMessage
		if !decodes(value, &object) {
			object = nil
		}
		value = object[name]
	}
	lines := h[p.field]
	if len(value) == 0 || string(value) == "null" {
		for _, line := range lines {
			if line != "" {
				return p.field + " is there without its argument"
			}
		}
		return ""
	}
	if len(lines) == 0 {
		return p.field + " is missing"
	}
	for _, line := range lines {
		said, ok := DecodeHeader(strings.Trim(line, " \t"))
		if !ok {
			return p.field + " is not valid base64"
		}
		if !saysArgument(said, value) {
			return p.field + " differs from the body"
		}
	}
	return ""
}

// saysArgument reports whether a header's value stands for an argument. Integers are compared as numbers.
func saysArgument(said string, argument []byte) bool {
	var value any
	if !decodes(argument, &value) {
		return false
	}
	switch v := value.(type) {
	case string:
		return said == v
	case bool:
		return said == strconv.FormatBool(v)
	case float64:
		n, err := strconv.ParseFloat(said, 64)
		return err == nil && n == v && v == math.Trunc(v) && math.Abs(v) < 1<<53
	}
	return false
}

// DecodeHeader decodes a value of a header field that may have the form =?base64?…?= (SEP-2243).
func DecodeHeader(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	if ok {
		encoded, ok = strings.CutSuffix(encoded, "?=")
	}
	if !ok {
		return value, true
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
	return string(decoded), err == nil
}
