package kit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStory(t *testing.T) {
	const id = "AAAAAAAAAAAAAAAAAAAAAA."
	require.Equal(t, "200 sse primer@0 1:progress -:result retry comment strange(x) 2:error(-1,7) expired", Exchange("HTTP/1.1 200 OK\r\n"+
		"Content-Type: text/event-stream\r\n\r\nid: "+id+"0.z\nretry: 5\ndata: \n\nid: "+id+"1\ndata: {\"method\":\"notifications/progress\"}\n\n"+
		"data: {\"result\":1}\n\nretry: 1\n\n: \n\nid: x\n\nid: "+id+"2\ndata: {\"id\":7,\"error\":{\"code\":-1,\"data\":{\"reason\":\"expired\"}}}\n\n"))
}
