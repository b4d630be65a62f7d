package rejointest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	cursorHeader  = "Last-Event-Id"

	// Versions before this one have no version header.
	firstWithHeader = "2025-06-18"

	maxDepth = 256
)

// The addresses are from ranges that are kept for documentation. They are no loopback addresses, so the server does not check Host, and middleware
// can parse them.
var (
	serverAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	clientIP   = net.IPv4(192, 0, 2, 2)
)

func (c *Client) marshal(params any) []byte {
	c.t.Helper()
	if params == nil {
		return nil
	}
	raw, err := json.Marshal(params)
	if err != nil {
		c.t.Fatalf("rejointest: params: %v", err)
	}
	return raw
}

// request makes a request of the session. body is sent with a POST.
func (c *Client) request(method string, body []byte) *http.Request {
	req := (&http.Request{Method: method, Header: http.Header{}}).WithContext(context.Background())
	switch method {
	case http.MethodPost:
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	case http.MethodGet:
		req.Header.Set("Accept", "text/event-stream")
	}
	for name, values := range c.cfg.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	c.fill(req)
	return req
}

// fill adds what every request of the session has, where it is missing.
func (c *Client) fill(req *http.Request) {
	if req.URL == nil {
		req.URL = &url.URL{}
	}
	if req.URL.Path == "" {
		req.URL.Path = c.cfg.Path
	}
	if req.URL.Host == "" {
		req.URL.Scheme, req.URL.Host = "http", "rejoin.test"
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	set := func(name string, values ...string) {
		name = http.CanonicalHeaderKey(name)
		if _, ok := req.Header[name]; !ok {
			req.Header[name] = values
		}
	}
	for name, values := range c.cfg.Header {
		set(name, values...)
	}
	if c.session != "" {
		set(sessionHeader, c.session)
	}
	if c.version >= firstWithHeader {
		set(versionHeader, c.version)
	}
}

// roundTrip sends a request. Closing the response's body closes the connection. It is safe for concurrent use.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer time.AfterFunc(c.cfg.Patience, conn.Reset).Stop()
	res, err := fetch(conn, req)
	if err != nil {
		c.hangUp(conn)
		return nil, err
	}
	res.Body = &connBody{res.Body, func() { c.hangUp(conn) }}
	return res, nil
}

// connBody is a body whose Close closes its connection.
type connBody struct {
	io.ReadCloser
	hangUp func()
}

func (b *connBody) Close() error {
	b.hangUp()
	return nil
}

// expect sends a request and fails the test if it is not answered with that status.
func (c *Client) expect(status int, req *http.Request, what string) {
	c.t.Helper()
	if err := c.check(status, req); err != nil {
		c.t.Fatalf("rejointest: %s: %v", what, err)
	}
}

// check is expect for goroutines other than the test's: it returns the failure.
func (c *Client) check(status int, req *http.Request) error {
	res, err := c.roundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxEvent))
	if err == nil && res.StatusCode != status {
		err = errors.New(res.Status + ": " + string(body))
	}
	return err
}
