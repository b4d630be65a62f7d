package kit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStory(t *testing.T) {
	const id = "AAAAAAAAAAAAAAAAAAAAAA."
	require.Equal(t, "200 sse primer@0 1:progress -:result retry comment strange(x) 2:error(-1,7) expired 2~:result", ResponseSummary("HTTP/1.1 200 OK\r\n"+
		"Content-Type: text/event-stream\r\n\r\nid: "+id+"0.z\nretry: 5\ndata: \n\nevent: message\nid: "+id+"1\ndata: {\"method\":\"notifications/progress\"}\n\n"+
		"event: message\ndata: {\"result\":1}\n\nretry: 1\n\n: \n\nid: x\n\nevent: message\nid: "+id+"2\ndata: {\"id\":7,\"error\":{\"code\":-1,\"data\":{\"reason\":\"expired\"}}}\n\n"+
		"event: message\nid: "+id+"2.1\ndata: {\"result\":1}\n\n"))
	for name, block := range map[string]string{
		"a message without a name": "id: " + id + "1\ndata: {\"result\":1}",
		"one without an id either": "data: {\"result\":1}",
		"another name":             "event: other\nid: " + id + "1\ndata: {\"result\":1}",
		"a primer with a name":     "event: message\nid: " + id + "0.z\nretry: 5\ndata: ",
	} {
		require.Equal(t, "strange("+block+")", EventsSummary(block+"\n\n"), name)
	}
}
