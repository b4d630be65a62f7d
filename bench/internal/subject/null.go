package subject

import (
	"bytes"
	"io"
	"net/http"
)

// newNull is net/http alone: the handler reads the body, finds two strings in it, and writes bytes. It decodes and checks nothing.
func newNull(Options) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc(Path, serveNull)
	return mux, nil
}

func serveNull(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	id := between(body, `"id":`, ",}")
	if id == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := append(make([]byte, 0, 160), `{"jsonrpc":"2.0","id":`...)
	answer = append(answer, id...)
	if bytes.Contains(body, []byte(`"initialize"`)) {
		answer = append(answer, `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}}`...)
	} else {
		answer = append(answer, `,"result":{"content":[{"type":"text","text":"`...)
		answer = append(answer, between(body, `"text":"`, `"`)...)
		answer = append(answer, `"}]}}`...)
	}
	_, _ = w.Write(answer)
}

// between returns what follows key in body, up to one of ends.
func between(body []byte, key, ends string) []byte {
	i := bytes.Index(body, []byte(key))
	if i < 0 {
		return nil
	}
	rest := body[i+len(key):]
	if end := bytes.IndexAny(rest, ends); end >= 0 {
		return rest[:end]
	}
	return nil
}
