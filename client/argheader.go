package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// maxPages bounds the pages of a list of tools that are read for one tool.
const maxPages = 100

// argumentHeader is an argument of a tool that a header field must repeat: its schema has an x-mcp-header (SEP-2243).
type argumentHeader struct {
	field string
	path  []string
}

// argumentHeaders are the header fields for a call, as far as it is known that its tool needs some.
func (s *Session) argumentHeaders(params map[string]json.RawMessage) http.Header {
	name, _ := jsonrpc.Unquote(params["name"])
	s.mu.Lock()
	all := s.repeated[name]
	s.mu.Unlock()
	h := http.Header{}
	for _, a := range all {
		if value, ok := argumentText(params["arguments"], a.path); ok {
			h[a.field] = []string{headerValue(value)}
		}
	}
	return h
}

// learnHeaders looks up which header fields a tool needs, after the server has refused a call because of its header. It reports whether this
// is news. Nothing has run then, so the call can be sent again.
func (s *Session) learnHeaders(ctx context.Context, c *Call, err error) bool {
	refusal, ok := errors.AsType[*StatusError](err)
	name, named := jsonrpc.Unquote(c.modern.params["name"])
	if !ok || refusal.Err == nil || refusal.Err.Code != codeHeader || c.modern.method != methodCall || !named {
		return false
	}
	params := map[string]json.RawMessage{}
	for range maxPages {
		var page struct {
			Tools []struct {
				Name   string          `json:"name"`
				Schema json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
			Next string `json:"nextCursor"`
		}
		raw, err := s.ask(ctx, modernRequest{id: s.nextID(), stream: c.id, method: "tools/list", params: params, idle: s.cfg.IdleTimeout}, nil)
		if err != nil || decodeResult(raw, &page) != nil {
			return false
		}
		for _, tool := range page.Tools {
			if tool.Name == name {
				return s.noteHeaders(name, schemaHeaders(tool.Schema, nil))
			}
		}
		if page.Next == "" {
			break
		}
		params = map[string]json.RawMessage{"cursor": text(page.Next)}
	}
	return false
}

func (s *Session) noteHeaders(tool string, all []argumentHeader) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := func(a, b argumentHeader) bool { return a.field == b.field && slices.Equal(a.path, b.path) }
	if slices.EqualFunc(s.repeated[tool], all, same) {
		return false
	}
	if s.repeated == nil {
		s.repeated = map[string][]argumentHeader{}
	}
	s.repeated[tool] = all
	return true
}

// schemaHeaders are the header fields that a schema names, in the order of their names.
func schemaHeaders(schema json.RawMessage, path []string) (all []argumentHeader) {
	var object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &object) != nil || len(path) > maxJSONDepth {
		return nil
	}
	for name, property := range object.Properties {
		at := append(slices.Clip(path), name)
		var own struct {
			Header string `json:"x-mcp-header"`
		}
		if json.Unmarshal(property, &own) == nil && own.Header != "" && !strings.ContainsFunc(own.Header, notToken) {
			all = append(all, argumentHeader{http.CanonicalHeaderKey("Mcp-Param-" + own.Header), at})
		}
		all = append(all, schemaHeaders(property, at)...)
	}
	slices.SortFunc(all, func(a, b argumentHeader) int { return strings.Compare(a.field, b.field) })
	return all
}

// argumentText is the argument at a path, as its header field says it. It returns false if there is none.
func argumentText(arguments json.RawMessage, path []string) (string, bool) {
	raw, ok := jsonrpc.Field(arguments, path...)
	var value any
	if !ok || json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		if text := string(raw); strings.Trim(text, "-0123456789") == "" {
			return text, true // digit by digit
		}
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// notToken reports whether r cannot be in the name of a header field (RFC 9110, 5.6.2).
func notToken(r rune) bool {
	letter := 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80
	return !letter && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
