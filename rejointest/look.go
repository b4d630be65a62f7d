package rejointest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing/synctest"
)

// Messages are the JSON-RPC messages so far, in order, each once, with the response. Refusals are not among them.
func (k *Call) Messages() []json.RawMessage {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]json.RawMessage, len(k.log.messages))
	for i, e := range k.log.messages {
		all[i] = e.data
	}
	return all
}

// IDs are the event ids so far, in the order in which they came, with those of primers.
func (k *Call) IDs() []string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.log.ids...)
}

// Open counts the connections that have not ended. 0: the client is away. 2: the server has not ended the old connection yet.
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

// Status is the status of the newest HTTP response, 0 while there is none.
func (k *Call) Status() int {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current().status
}

// Header is the header of the newest HTTP response, nil while there is none.
func (k *Call) Header() http.Header {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current().header
}

// JSON reports whether the newest HTTP response is plain JSON, not a stream.
func (k *Call) JSON() bool {
	return k.Status() == http.StatusOK && strings.HasPrefix(k.Header().Get("Content-Type"), "application/json")
}

// Wire is what was received so far on all connections of the call, in the order in which they were made. For each it has the status line, the
// header, sorted, an empty line, and the bytes of the body without chunk framing.
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

// String is Wire for readers: it also has what was asked, and when each connection began and ended, in virtual time since New, and how.
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
