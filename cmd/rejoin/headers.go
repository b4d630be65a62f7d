package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// own are the header fields that the client itself sets.
var own = []string{
	"Accept", "Accept-Encoding", "Content-Length", "Content-Type", "Host", "Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id",
}

// withHeaders adds header fields to every request. They reach no other origin: package client does not follow such redirects.
type withHeaders struct{ header http.Header }

func (t withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, t.header)
	return http.DefaultTransport.RoundTrip(r)
}

// httpClient returns a client that sends the fields of --header.
func httpClient(fields []string) (*http.Client, error) {
	header := http.Header{}
	for _, f := range fields {
		name, value, ok := strings.Cut(f, ":")
		name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch { // errors do not repeat the value, which may be a secret
		case !ok || name == "" || strings.ContainsFunc(name, notToken):
			return nil, errors.New("--header must be 'Name: value'")
		case strings.ContainsFunc(value, isControl):
			return nil, fmt.Errorf("--header %s: the value has a control character", name)
		case slices.Contains(own, name):
			return nil, fmt.Errorf("--header %s: the protocol decides about it", name)
		}
		header.Add(name, value)
	}
	return &http.Client{Transport: withHeaders{header}}, nil
}

// arguments are the arguments of a tool, from --args and --arg.
func arguments(object string, pairs []string) (map[string]json.RawMessage, error) {
	args := map[string]json.RawMessage{}
	if object != "" {
		if err := json.Unmarshal([]byte(object), &args); err != nil || args == nil {
			return nil, errors.New("--args must be a JSON object")
		}
	}
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--arg %q: must be name=value", p)
		}
		args[name] = argument(value)
	}
	return args, nil
}

// argument is value itself if that is JSON, else a JSON string of it.
func argument(value string) json.RawMessage {
	if raw := bytes.TrimSpace([]byte(value)); json.Valid(raw) {
		return raw
	}
	raw, _ := json.Marshal(value) //nolint:errchkjson // a string cannot fail
	return raw
}

// notToken reports whether a character must not be in the name of a header field.
func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}
