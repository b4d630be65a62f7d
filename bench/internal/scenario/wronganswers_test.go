package scenario

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// The processes are this test binary, started again.
func TestMain(m *testing.M) {
	proc.Main(find)
	os.Exit(m.Run())
}

// find also knows the subject "wrong-answers".
func find(name string) (subject.Subject, bool) {
	if name == "wrong-answers" {
		return subject.Subject{Name: name, New: newWrongAnswers}, true
	}
	return subject.Find(name)
}

// newWrongAnswers answers every call with the answer to the first one, with the id of the call.
func newWrongAnswers(subject.Options) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, after, _ := strings.Cut(string(body), `"id":`)
		id, _, _ := strings.Cut(after, ",")
		switch {
		case strings.Contains(string(body), "notifications/initialized"):
			w.WriteHeader(http.StatusAccepted)
		case strings.Contains(string(body), "initialize"):
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"%s"}}`, id, load.Protocol)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"the text of call %d, to be given back"}]}}`, id, load.Number+1)
		}
	}), nil
}
