package rawhttp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const maxDepth = 300 // of JSON

var (
	// statuses are those that handlers may send: rejoin, and the SDKs in the modern era.
	statuses = []int{200, 202, 204, 400, 403, 404, 405, 406, 413, 415, 429, 500, 501, 503}
	// refusals are those that net/http may send as the last answer of a connection.
	refusals = []int{400, 408, 417, 431, 501, 505}
)

// check checks all that has come over each connection. The server must be idle.
func (p *play) check() {
	for i, c := range p.conns {
		if err := c.check(); err != nil {
			p.failf("connection %d: %v", i, err)
		}
	}
}

// check reads the answers of a connection in order. Each request that reached the handler has one. A refusal of net/http may come last.
func (c *client) check() error {
	c.mu.Lock()
	requests := slices.Clone(c.requests)
	c.mu.Unlock()
	raw, over := c.Unread()
	whole := !c.cut && !c.frozen && !c.fin // otherwise a part of an answer may be missing
	in := bufio.NewReader(bytes.NewReader(raw))
	for i, r := range requests {
		if in.Buffered() == 0 {
			if _, err := in.Peek(1); err != nil {
				if r.mustBeWhole(whole) {
					return errorf("%s, request %d, has no answer", r.method, i)
				}
				return nil
			}
		}
		res, err := readHead(in, r.method)
		switch {
		case err != nil && r.mustBeWhole(whole):
			return errorf("answer %d: %w", i, err)
		case err != nil:
			return nil //nolint:nilerr // the answer may be incomplete
		}
		body, err := io.ReadAll(res.Body)
		ended := err == nil && (res.ContentLength >= 0 || slices.Contains(res.TransferEncoding, "chunked") || over)
		switch {
		case err != nil && (!errors.Is(err, io.ErrUnexpectedEOF) || r.mustBeWhole(whole)):
			return errorf("the body of answer %d: %w", i, err)
		case !slices.Contains(statuses, res.StatusCode):
			return errorf("answer %d: status %d", i, res.StatusCode)
		}
		if !whole && res.StatusCode == http.StatusOK && len(body) == 0 && res.Header["Content-Type"] == nil {
			return nil // net/http takes a client that closed its direction for gone: if the handler sends nothing, it sends this
		}
		if err := checkAnswer(r, res, body, ended); err != nil {
			return errorf("answer %d, to %s: %w", i, r.method, err)
		}
		if _, more := in.Peek(1); more == nil && (res.Close || !ended) {
			rest, _ := io.ReadAll(in)
			return errorf("there is more after the last answer, %d: %q", i, rest)
		}
	}
	return checkRest(in)
}

// mustBeWhole reports whether the whole answer must be there. whole: the connection was not broken.
func (r *request) mustBeWhole(whole bool) bool { return r.done && whole && !r.aborted }

// readHead reads the head of a final answer.
func readHead(in *bufio.Reader, method string) (*http.Response, error) {
	for {
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil || res.StatusCode != http.StatusContinue {
			return res, err
		}
		if len(res.Header) != 0 {
			return nil, errorf("100 Continue has fields: %v", res.Header)
		}
	}
}

// checkRest checks what comes after the answers of the handler: nothing, or one refusal of net/http. (net/http may wait for a body before it
// closes the connection.)
func checkRest(in *bufio.Reader) error {
	if _, err := in.Peek(1); err != nil {
		return nil //nolint:nilerr // it is the end
	}
	res, err := readHead(in, http.MethodGet)
	if err != nil {
		rest, _ := io.ReadAll(in)
		return errorf("there is more after the answers: %w, %q", err, rest)
	}
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return errorf("a refusal of net/http: %w", err)
	case !slices.Contains(refusals, res.StatusCode) || !res.Close:
		return errorf("there is more after the answers: %d, %q", res.StatusCode, body)
	}
	return nil
}

// checkAnswer checks one answer of the handler. ended: its body is complete.
func checkAnswer(r *request, res *http.Response, body []byte, ended bool) error {
	for _, name := range []string{"Content-Type", "Content-Length", "Mcp-Session-Id", "Cache-Control", "Retry-After"} {
		if len(res.Header[name]) > 1 {
			return errorf("%s stands there %d times", name, len(res.Header[name]))
		}
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // "": there is none
	id := res.Header.Get("Mcp-Session-Id")
	switch {
	case id != "" && (res.StatusCode != http.StatusOK || r.method != http.MethodPost):
		return errorf("%d names a session", res.StatusCode)
	case res.StatusCode == http.StatusAccepted, res.StatusCode == http.StatusNoContent:
		if len(body) > 0 {
			return errorf("%d has a body: %q", res.StatusCode, body)
		}
		return nil
	case r.method == http.MethodHead:
		return nil
	case kind == "text/event-stream" && res.StatusCode == http.StatusOK:
		return checkStream(body, ended)
	case kind != "application/json":
		return errorf("%d of type %q: %q", res.StatusCode, kind, body)
	case !ended:
		return nil
	}
	if _, named := jsonrpc.Field(body, "id"); !named && res.StatusCode >= http.StatusBadRequest && bytes.HasPrefix(body, []byte("{")) {
		body = append([]byte(`{"id":null,`), body[1:]...) // MCP's schema allows an error without an id; go-sdk sends such errors for notifications
	}
	failed, err := checkMessages(body)
	if err == nil && res.StatusCode >= http.StatusBadRequest && !failed {
		err = errorf("%d is no error: %q", res.StatusCode, body)
	}
	return err
}

// checkMessages checks that a body is one message or a batch of them.
func checkMessages(body []byte) (failed bool, err error) {
	var all []jsonrpc.Message
	if jsonrpc.IsBatch(body) {
		all, err = jsonrpc.ParseBatch(nil, body, maxDepth)
	} else {
		all = make([]jsonrpc.Message, 1)
		all[0], err = jsonrpc.Parse(body, maxDepth)
	}
	if err != nil {
		return false, errorf("%w in %q", err, body)
	}
	for _, m := range all {
		if m.Kind != jsonrpc.Result && m.Kind != jsonrpc.Failure {
			return false, errorf("an answer is no response: %q", body)
		}
		failed = m.Kind == jsonrpc.Failure
	}
	return failed, nil
}
