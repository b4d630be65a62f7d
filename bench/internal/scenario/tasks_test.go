package scenario

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client asks until its task has ended, and sees whether the result is that of its own call.
func TestWhatATaskHasIsChecked(t *testing.T) {
	const own = `"status":"completed","result":{"resultType":"complete","content":[{"type":"text","text":"released 7"}]}`
	for states, want := range map[string]struct {
		ended, ok bool
		fault     string
	}{
		own:                                {true, true, ""},
		`"status":"working";` + own:        {true, true, ""},
		strings.ReplaceAll(own, "7", "8"):  {true, false, ""},
		`"status":"failed","error":{}`:     {true, false, ""},
		`"status":"cancelled"`:             {true, false, ""},
		`"status":"working"`:               {false, false, ""},
		`"taskId":"other",` + own + `,"x"`: {false, false, "not the task"},
	} {
		answers := strings.Split(states, ";")
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			state := answers[0]
			if len(answers) > 1 {
				answers = answers[1:]
			}
			if !strings.Contains(state, "taskId") {
				state = `"taskId":"t",` + state
			}
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":7,"result":{%s}}`, state)
		}))
		c, hangUp, err := target{Addr: strings.TrimPrefix(server.URL, "http://")}.dial(t.Context())
		require.NoError(t, err)
		_, ended, ok, err := waitForTask(c, 7, "t")
		if want.fault != "" {
			require.ErrorContains(t, err, want.fault)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, want.ended, ended, states)
		require.Equal(t, want.ok, ok, states)
		hangUp()
		server.Close()
	}
}

// A call that is answered with its result is not a task.
func TestMakeTaskNeedsATask(t *testing.T) {
	for answer, fault := range map[string]string{
		`{"resultType":"task","taskId":"t1","status":"working"}`: "",
		`{"resultType":"complete","content":[]}`:                 "not a task",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":7,"result":%s}`, answer)
		}))
		c, hangUp, err := target{Addr: strings.TrimPrefix(server.URL, "http://")}.dial(t.Context())
		require.NoError(t, err)
		id, err := makeTask(c, 7)
		if fault != "" {
			require.ErrorContains(t, err, fault)
		} else {
			require.NoError(t, err)
			require.Equal(t, "t1", id)
		}
		hangUp()
		server.Close()
	}
}
