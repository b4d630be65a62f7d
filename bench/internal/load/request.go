package load

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

const (
	path        = "/mcp"
	versionLine = "Mcp-Protocol-Version: " + Protocol + "\r\n"
)

// Protocol is the version of MCP that the requests use.
const Protocol = "2025-11-25"

// Initialize and Initialized are the bodies of the two messages that open a session.
const (
	Initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + Protocol +
		`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	Initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// Post returns the bytes of a POST of body. With an empty session it has no session header.
func Post(session string, body []byte) []byte {
	raw := head("POST", session)
	raw = append(raw, "Content-Type: application/json\r\n"+versionLine+"Content-Length: "...)
	raw = strconv.AppendInt(raw, int64(len(body)), 10)
	raw = append(raw, "\r\n\r\n"...)
	return append(raw, body...)
}

// Get returns the bytes of a GET: of the standalone stream, or, if lastEventID is not empty, of a stream after that event.
func Get(session, lastEventID string) []byte {
	raw := head("GET", session)
	if lastEventID != "" {
		raw = append(raw, "Last-Event-ID: "+lastEventID+"\r\n"...)
	}
	return append(raw, versionLine+"\r\n"...)
}

// Delete returns the bytes of a DELETE, which ends the session.
func Delete(session string) []byte {
	return append(head("DELETE", session), versionLine+"\r\n"...)
}

func head(method, session string) []byte {
	raw := []byte(method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n")
	switch method {
	case "POST":
		raw = append(raw, "Accept: application/json, text/event-stream\r\n"...)
	case "GET":
		raw = append(raw, "Accept: text/event-stream\r\n"...)
	}
	if session != "" {
		raw = append(raw, "Mcp-Session-Id: "+session+"\r\n"...)
	}
	return raw
}

// Call returns the body of a tools/call. id is also its progress token; arguments is JSON.
func Call(id int, tool, arguments string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s,"_meta":{"progressToken":%d}}}`,
		id, tool, arguments, id)
}

// initialize negotiates the version, so its own request does not name one in a header.
var (
	postInitialize = bytes.Replace(Post("", []byte(Initialize)), []byte(versionLine), nil, 1)
	postTypical    = bytes.Replace(Post("", []byte(typical)), []byte(versionLine), nil, 1)
)

// typical is an initialize that says as much as those of well-known clients.
const typical = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + Protocol +
	`","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{}},` +
	`"clientInfo":{"name":"example-client","title":"Example Client","version":"1.12.0","websiteUrl":"https://example.com/client"}}}`

// Open sends initialize and notifications/initialized, and checks the answers. The session is empty if the server has no sessions.
func Open(c *Conn) (session string, err error) { return open(c, postInitialize) }

// OpenTypical is Open with a client that says as much of itself as a well-known one.
func OpenTypical(c *Conn) (session string, err error) { return open(c, postTypical) }

func open(c *Conn, initialize []byte) (session string, err error) {
	if err := c.Send(initialize); err != nil {
		return "", err
	}
	h, err := c.Head()
	if err != nil {
		return "", fmt.Errorf("initialize: %w", err)
	}
	if h.Status != http.StatusOK {
		return "", fmt.Errorf("initialize: status %d: %w", h.Status, c.refusal())
	}
	answer, err := c.Answer(h)
	if err != nil {
		return "", fmt.Errorf("initialize: %w", err)
	}
	if !bytes.Contains(answer, []byte(`"protocolVersion":"`+Protocol+`"`)) {
		return "", fmt.Errorf("initialize: %.200s", answer)
	}
	if err := c.Accepted(Post(h.Session, []byte(Initialized))); err != nil {
		return "", fmt.Errorf("initialized: %w", err)
	}
	return h.Session, nil
}

// Accepted sends a request and ignores the content of the answer, whose status must be 200, 202 or 204.
func (c *Conn) Accepted(raw []byte) error {
	if err := c.Send(raw); err != nil {
		return err
	}
	h, err := c.Head()
	if err != nil {
		return err
	}
	if h.Status != http.StatusOK && h.Status != http.StatusAccepted && h.Status != http.StatusNoContent {
		return fmt.Errorf("status %d: %w", h.Status, c.refusal())
	}
	c.body, err = c.Body(c.body[:0])
	return err
}

// refusal returns the body of a refusal as an error.
func (c *Conn) refusal() error {
	body, err := c.Body(nil)
	return errors.Join(fmt.Errorf("%.200s", bytes.TrimSpace(body)), err)
}

// Template is a request that contains a number, which can be changed in place.
type Template struct {
	Raw []byte
	at  []int
}

// Number stands for the number in a new template. All numbers have as many digits as it has.
const Number = 100_000_000

// NewTemplate makes a template of a request that contains Number at least once. It keeps raw.
func NewTemplate(raw []byte) Template {
	t := Template{Raw: raw}
	number := strconv.AppendInt(nil, Number, 10)
	for from := 0; ; {
		i := bytes.Index(raw[from:], number)
		if i < 0 {
			return t
		}
		t.at = append(t.at, from+i)
		from += i + len(number)
	}
}

// Set writes n, which has as many digits as Number, to all places of the number, and returns its digits.
func (t Template) Set(n int) []byte {
	var digits [9]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	for _, at := range t.at {
		copy(t.Raw[at:], digits[:])
	}
	return t.Raw[t.at[0] : t.at[0]+len(digits)]
}
