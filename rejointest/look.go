package rejointest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing/synctest"
)

// Messages are the JSON-RPC messages so far, in order, each once, the response included. A refusal is none.
func (k *Call) Messages() []json.RawMessage {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]json.RawMessage, len(k.chain.log))
	for i, e := range k.chain.log {
		all[i] = e.data
	}
	return all
}

// IDs are the event ids so far, as they came, primers included.
func (k *Call) IDs() []string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.chain.ids...)
}

// Open counts the connections that have not ended: 0 is a client that is away, 2 a takeover that is not through.
func (k *Call) Open() int {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	open := 0
	for _, x := range k.exchanges {
		if x.end == running {
			open++
		}
	}
	return open
}

// Status is the status of the newest response, 0 while there is none.
func (k *Call) Status() int {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current().status
}

// Header is the header of the newest response, nil while there is none.
func (k *Call) Header() http.Header {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current().header
}

// JSON reports whether the newest response is a plain JSON answer, and no stream.
func (k *Call) JSON() bool {
	return k.Status() == http.StatusOK && strings.HasPrefix(k.Header().Get("Content-Type"), "application/json")
}

// Wire is what was received so far on all connections of the call: of each, in the order in which they were made, the status line,
// the header, sorted, an empty line, and the bytes of the body, without the framing of chunks.
func (k *Call) Wire() string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	var b strings.Builder
	for _, x := range k.exchanges {
		b.Write(x.wire.Bytes())
	}
	return b.String()
}

// String is Wire for human eyes: also what was asked, and when each connection began and how it ended, in virtual time since New.
func (k *Call) String() string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.transcript()
}

func (k *Call) transcript() string {
	var b strings.Builder
	for _, x := range k.exchanges {
		b.WriteString(x.String())
	}
	return b.String()
}
